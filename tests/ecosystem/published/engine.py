"""What an engine makes of config.json: which of its layers it builds quantized.
As vLLM does it: names of the list are brought to the engine's own, an entry with
"re:" is an expression that matches from the start, a fused layer is asked for by
the names of its shards, which must agree, and experts by those of the first."""

import re

# The engine's layer, and what it is joined of.
FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"),
         "gate_up_proj": ("gate_proj", "up_proj"),
         "w13": ("w1", "w3"),
         "fused_qkv_a_proj": ("q_a_proj", "kv_a_proj_with_mqa"),
         "qkv": ("query", "key", "value")}


def mapped(name, mapper):
    """The engine's name of a module: the first prefix that fits, then every
    part that is to be replaced. vLLM renames by tensors' names, so that a
    prefix ends with a dot."""
    for old, new in mapper.get("prefix", {}).items():
        if name.startswith(old):
            name = new + name[len(old):]
            break
    for old, new in mapper.get("part", {}).items():
        name = name.replace(old, new)
    return name


class Engine:
    """Of one config.json."""

    def __init__(self, config, mapper):
        self.mapper = mapper
        quantization = config.get("quantization_config", {})
        self.entries = [
            entry if entry.startswith("re:") else mapped(entry, mapper)
            for entry in (quantization.get("ignore")
                          or quantization.get("modules_to_not_convert") or [])]
        self.literal = {e for e in self.entries if not e.startswith("re:")}
        self.patterns = [re.compile(e[3:]) for e in self.entries
                         if e.startswith("re:")]

    def ignores(self, module):
        """Whether a layer of that name in the files is left alone."""
        name = mapped(module, self.mapper)
        return name in self.literal or any(p.match(name)
                                           for p in self.patterns)

    def torn(self, modules):
        """Fused layers some of whose shards are left alone, and not all."""
        groups = {}
        for module in modules:
            parent, _, leaf = module.rpartition(".")
            for fused, shards in FUSED.items():
                if leaf in shards:
                    groups.setdefault(f"{parent}.{fused}", set()).add(
                        self.ignores(module))
        return sorted(name for name, said in groups.items() if len(said) > 1)
