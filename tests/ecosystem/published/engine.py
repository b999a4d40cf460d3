"""What engines make of config.json: which of their layers they build quantized,
as vLLM does it and, where that is stricter, SGLang.

Names of the list are brought to vLLM's own first. A fused layer is asked for by the
names of its shards, which must agree, and experts by those of the first or by
the name that they have together."""

import fnmatch
import re

# The engine's layer, and what it is joined of.
FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"),
         "gate_up_proj": ("gate_proj", "up_proj"),
         "w13": ("w1", "w3"),
         "fused_qkv_a_proj": ("q_a_proj", "kv_a_proj_with_mqa"),
         "qkv": ("query", "key", "value")}


def mapped(name, mapper):
    """vLLM's name of a module: the first prefix that fits is replaced, and every
    part that is to be. vLLM renames tensors so, too, and a prefix ends with a
    dot."""
    for old, new in mapper.get("prefix", {}).items():
        if name.startswith(old):
            name = new + name[len(old):]
            break
    for old, new in mapper.get("part", {}).items():
        name = name.replace(old, new)
    return name


class Engine:
    """Of one config.json."""

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
        """Whether the layer that has this module of the files is left alone."""
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
        """Whether an entry of compressed-tensors' list is that name."""
        return name in self.literal or any(
            e.match(name) for e in self.expressions)

    def modelopt_ignores(self, layer):
        """ModelOpt's entries are patterns. vLLM takes them for parts of names,
        too, and SGLang for what stands between two dots; neither does what
        paints."""
        if self.method != "modelopt":
            return False
        short = layer.removeprefix("language_model.")
        names = [layer, *layer.split(".")] if self.parts else [layer]
        return any(self.parts and e != layer and (e in layer or e in short)
                   or any(fnmatch.fnmatch(name, e) for name in names)
                   for e in self.literal)

    def torn(self, modules):
        """Fused layers some of whose shards are left alone, and not all."""
        groups = {}
        for module in modules:
            name = fused_name(module)
            if name:
                groups.setdefault(name, set()).add(self.ignores(module))
        return sorted(name for name, said in groups.items() if len(said) > 1)


def fused_name(module):
    """Of one of several modules that are joined the layer's name, or None."""
    parent, _, leaf = module.rpartition(".")
    for fused, shards in FUSED.items():
        if leaf in shards:
            return f"{parent}.{fused}"
    return None
