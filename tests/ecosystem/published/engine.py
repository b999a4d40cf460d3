"""Decides from config.json which layers an engine builds quantized, like vLLM
or, where it is stricter, SGLang.

Names in the list are first mapped to vLLM's. A fused layer is matched by the
names of its shards, which must agree. Experts are matched by the names of the
first expert, or by their common name."""

import fnmatch
import re

# The engine's fused layers and their members.
FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"),
         "gate_up_proj": ("gate_proj", "up_proj"),
         "w13": ("w1", "w3"),
         "fused_qkv_a_proj": ("q_a_proj", "kv_a_proj_with_mqa"),
         "qkv": ("query", "key", "value")}


def mapped(name, mapper):
    """Returns vLLM's name of a module: replaces the first prefix that matches,
    and every part in the mapper. vLLM also renames tensors with the mapper, so
    a prefix ends with a dot."""
    for old, new in mapper.get("prefix", {}).items():
        if name.startswith(old):
            name = new + name[len(old):]
            break
    for old, new in mapper.get("part", {}).items():
        name = name.replace(old, new)
    return name


class Engine:
    """An engine that has read one config.json."""

    def __init__(self, config, mapper, parts=True):
        self.mapper = mapper
        self.parts = parts
        quantization = config.get("quantization_config", {})
        self.method = quantization.get("quant_method", "")
        entries = [entry if entry.startswith("re:") else mapped(entry, mapper)
                   for entry in (quantization.get("ignore")
                                 or quantization.get("modules_to_not_convert")
                                 or [])]
        self.literal = {e for e in entries if not e.startswith("re:")}
        self.expressions = [re.compile(e[3:]) for e in entries
                            if e.startswith("re:")]

    def ignores(self, module):
        """Returns whether the layer of this module is left unquantized."""
        name = mapped(module, self.mapper)
        experts = re.match(r"(.*experts)\.\d+\.", name)
        if self.method == "compressed-tensors":
            return self.lists(name)
        if experts:
            together = experts[1]
            return any(together in e for e in self.literal if "experts" in e
                       ) or self.modelopt_ignores(together)
        return name in self.literal or self.modelopt_ignores(
            fused_name(name) or name)

    def lists(self, name):
        """Returns whether an entry of compressed-tensors' list matches a name."""
        return name in self.literal or any(
            e.match(name) for e in self.expressions)

    def modelopt_ignores(self, layer):
        """Returns whether ModelOpt's list matches a layer. Its entries are
        patterns. vLLM also matches them with parts of names, and SGLang with a
        component between two dots. Engines for diffusion models do neither."""
        if self.method != "modelopt":
            return False
        short = layer.removeprefix("language_model.")
        names = [layer, *layer.split(".")] if self.parts else [layer]
        return any(self.parts and e != layer and (e in layer or e in short)
                   or any(fnmatch.fnmatch(name, e) for name in names)
                   for e in self.literal)

    def torn(self, modules):
        """Returns fused layers with both quantized and unquantized shards."""
        groups = {}
        for module in modules:
            name = fused_name(module)
            if name:
                groups.setdefault(name, set()).add(self.ignores(module))
        return sorted(name for name, said in groups.items() if len(said) > 1)


def fused_name(module):
    """Returns the fused layer's name for a member, or None."""
    parent, _, leaf = module.rpartition(".")
    for fused, shards in FUSED.items():
        if leaf in shards:
            return f"{parent}.{fused}"
    return None
