"""Compares quantctl's plans and files with a model's table. Each function
returns sentences about differences; no sentence means that all is as
expected."""

import collections
import dataclasses
import itertools
import json

import numpy as np

import directories
import engine
import tensors as table
import values

# The members of fused modules, which must share a scale. Others must not.
TOGETHER = [set(names.split()) for names in (
    "q_proj k_proj v_proj", "gate_proj up_proj", "w1 w3", "query key value",
    "q k v", "wi_0 wi_1", "to_q to_k to_v", "add_q_proj add_k_proj add_v_proj",
    "q_a_proj kv_a_proj_with_mqa")]


class Findings:
    """Sentences about names. Those with the same text about a line of a table
    become one, with the first name and a count."""

    def __init__(self):
        self.kinds = collections.OrderedDict()

    def add(self, row, what, name):
        key = (row.template if row else "", what)
        self.kinds.setdefault(key, []).append(name)

    def lines(self):
        return [f"{names[0]}: {what}" + (
            f" ({len(names)} like it)" if len(names) > 1 else "")
            for (_, what), names in self.kinds.items()]


def matrices(tensors):
    """Yields each tensor with the modules that it becomes, as (name, rows, cols)."""
    for t in tensors:
        if t.row.word == "stack":
            parts, _ = table.split_of(t)
            yield t, [(name, rows, cols) for name, _, _, rows, cols in parts]
        elif t.row.word in ("quant", "any", "plain") and len(t.shape) == 2:
            yield t, [(t.module, *t.shape)]
        elif t.row.word == "quant" and len(t.shape) == 3:  # experts stay stacked
            yield t, [(t.module, None, None)]
        else:
            yield t, []


def unwanted(row):
    return f"quantized, expected {row.word}: {row.why}"


def plan(event, tensors, counts):
    """Compares the output of --dry-run with the table."""
    found = Findings()
    taken = {}
    for group in event["groups"]:
        for weight in group:
            taken[weight["module"]] = tuple(weight["shape"])
    left = {entry["module"] for entry in event["left_out"]}
    expected = set()
    for t, modules in matrices(tensors):
        word, row = t.row.word, t.row
        have = [m for m, _, _ in modules if m in taken]
        if have and word in ("plain", "copy"):
            found.add(row, unwanted(row), t.name)
        if word == "quant" and len(have) < len(modules):
            found.add(row, "left alone, expected quantized", t.name)
        if word == "stack" and 0 < len(have) < len(modules):
            found.add(row, "only some of its experts are quantized", t.name)
        if not have and t.module not in left and word in (
                "plain", "any", "stack"):
            found.add(row, "left alone, but the plan's left_out does not "
            "name it", t.name)
        for module, rows, cols in modules:
            expected.add(module)
            if rows and taken.get(module, (rows, cols)) != (rows, cols):
                found.add(row, f"{taken[module]}, expected {(rows, cols)}",
                          module)
        counts["quantized" if have else "plain" if modules else "copied"] += 1
    rows = {t.module: t.row for t in tensors}
    for module in taken:
        if module not in expected:
            found.add(rows.get(module), "quantized, expected a copy", module)
    groups(event, taken, rows, found)
    return found.lines()


def groups(event, taken, rows, found):
    """Checks that modules share a scale if and only if engines fuse them."""
    group_of = {}
    for number, group in enumerate(event["groups"]):
        for weight in group:
            group_of[weight["module"]] = number
        leaves = {w["module"].rpartition(".")[2] for w in group}
        if len(leaves) > 1 and not any(leaves <= some for some in TOGETHER):
            module = group[0]["module"]
            found.add(rows.get(module), "shares a scale with "
                      f"{group[1]['module'].rpartition('.')[2]}, which no "
                      "engine fuses with it", module)
    for module in taken:
        parent, _, leaf = module.rpartition(".")
        for some in TOGETHER:
            others = [f"{parent}.{name}" for name in sorted(some)
                      if f"{parent}.{name}" in taken and leaf in some]
            for other in others:
                if group_of[other] != group_of[module]:
                    found.add(rows.get(module),
                              f"has another scale than {other}", module)


def configuration(config, source, model, tensors, written):
    """Checks config.json as an engine reads it."""
    found = Findings()
    ours = {k: v for k, v in config.items() if k != "quantization_config"}
    theirs = {k: v for k, v in source.items() if k != "quantization_config"}
    if ours != theirs:
        found.add(None, "differs in more than quantization_config",
                  "config.json")
    mapper = model.get("mapper", {})
    seen = engine.Engine(config, mapper, model.get("parts", True))
    # transformers matches the names in the files. Experts that stay in one
    # tensor have no such names.
    files = engine.Engine(config, {})
    for t, modules in matrices(tensors):
        taken = any(is_written(m, written) for m, _, _ in modules)
        engines = {"vLLM": seen, "transformers": files}
        if seen.method != "compressed-tensors" or (
                t.row.word == "stack" and not taken):
            del engines["transformers"]
        for name, _, _ in modules:
            wrong = [who for who, asked in engines.items()
                     if asked.ignores(name) == taken]
            if wrong:
                found.add(t.row, ("quantized, and ignored by " if taken else
                                  "left alone, but no entry of config.json's list "
                                  "matches it for ") + " and ".join(wrong),
                          engine.mapped(name, mapper))
    for name in seen.torn(m for _, modules in matrices(tensors)
                          for m, _, _ in modules):
        found.add(None, "only some of its shards are ignored", name)
    for row in table.rows_of(model):
        if row.word == "tied" and not seen.ignores(row.template):
            found.add(row, f"is not in config.json's list: {row.why}",
                      row.template)
    return found.lines()


SUFFIXES = (".weight_packed", ".weight_scale", ".weight_scale_inv", "_blocks")


def is_written(module, written):
    """Returns whether a module is quantized in a directory."""
    return any(module + suffix in written for suffix in SUFFIXES)


def content(written, tensors, numbers):
    """Checks parts, shapes and values of every tensor, and that there are no others."""
    found = Findings()
    known = set()
    for t in tensors:
        stored = numbers[t.name].tobytes()
        if t.name in written:
            known.add(t.name)
            dtype, shape, data, _ = written[t.name]
            if dtype == t.dtype:
                if shape != t.shape or data != stored:
                    found.add(t.row, "is not byte for byte the original's",
                              t.name)
                elif t.row.word == "quant":
                    found.add(t.row, "left alone, expected quantized", t.name)
                continue
            if t.row.word in ("plain", "copy"):
                found.add(t.row, unwanted(t.row), t.name)
        for name, part in originals(t, stored):
            known |= quantized(found, t, name, part, written)
    for name in sorted(set(written) - known):
        found.add(None, "is not expected", name)
    return found.lines()


def in_bf16(tensors, numbers=None):
    """Returns the tensors of a model in FP8 blocks as bf16, and their values."""
    plain, known = [], dict(numbers or {})
    for t in tensors:
        if t.stored == "fp8" and t.name.endswith("weight_scale_inv"):
            continue
        if t.stored == "fp8":
            if numbers:
                known[t.name] = directories.to_bf16(values.fp8_blocks(
                    numbers[t.name], numbers[t.module + ".weight_scale_inv"]))
            t = dataclasses.replace(t, dtype="BF16", stored="")
        plain.append(t)
    return plain, known


def originals(t, data):
    """Yields (module, fp32 values) for each matrix that a tensor becomes."""
    original = values.plain(t.dtype, t.shape, data)
    if t.row.word != "stack":
        return [(t.module, original)]
    parts, turned = table.split_of(t)
    if turned:
        original = original.transpose(0, 2, 1)
    return [(name, original[e, first:first + rows])
            for name, e, first, rows, _ in parts]


def quantized(found, t, module, original, written):
    """Checks a weight's parts and returns their names."""
    def get(suffix, dtype, shape):
        name = module + suffix
        if name not in written:
            found.add(t.row, f"has no {suffix}", module)
            return None
        have, dims, data, _ = written[name]
        if have != dtype or (shape is not None and dims != tuple(shape)):
            found.add(t.row, f"is {have} {list(dims)}, expected {dtype} "
                      f"{shape and list(shape)}", name)
            return None
        kind = {"U8": np.uint8, "F8_E4M3": np.uint8, "F32": "<f4"}[dtype]
        return np.frombuffer(data, kind).reshape(dims)

    def all_of(*parts):
        return None if any(part is None for part in parts) else parts

    rows, cols = original.shape[-2:]
    blocks = (rows, cols // 16)
    if module + ".comfy_quant" in written:
        names = (".weight", ".weight_scale", ".weight_scale_2", ".comfy_quant")
        all_of(get(names[0], "U8", (rows, cols // 2)),
               get(names[1], "F8_E4M3", None), get(names[2], "F32", ()),
               get(names[3], "U8", None))
        decoded = original  # another test checks the byte order
    elif module + "_blocks" in written:
        names = ("_blocks", "_scales")
        original = original.transpose(0, 2, 1)  # as in gpt-oss's blocks
        experts, rows, cols = original.shape
        parts = all_of(get(names[0], "U8", (experts, rows, cols // 32, 16)),
                       get(names[1], "U8", (experts, rows, cols // 32)))
        decoded = parts and values.mxfp4(*parts)
    elif module + ".weight_scale_inv" in written:
        names = (".weight", ".weight_scale_inv")
        parts = all_of(get(names[0], "F8_E4M3", (rows, cols)),
                       get(names[1], "F32", (-(-rows // 128), -(-cols // 128))))
        decoded = parts and values.fp8_blocks(*parts)
    elif module + ".weight_scale_2" in written:
        names = (".weight", ".weight_scale", ".weight_scale_2")
        parts = all_of(get(names[0], "U8", (rows, cols // 2)),
                       get(names[1], "F8_E4M3", blocks),
                       get(names[2], "F32", ()))
        decoded = parts and values.nvfp4(*parts[:2], 1 / parts[2])
    else:
        names = (".weight_packed", ".weight_scale", ".weight_global_scale")
        parts = all_of(get(names[0], "U8", (rows, cols // 2)),
                       get(names[1], "F8_E4M3", blocks),
                       get(names[2], "F32", (1,)))
        decoded = parts and values.nvfp4(*parts)
    if decoded is not None and values.sqnr_db(original, decoded) < 15:
        found.add(t.row, "decodes to numbers far from the original's", module)
    return {module + suffix for suffix in names}


def decoded(written, tensors, numbers):
    """Checks a model that was decoded to bf16."""
    found = Findings()
    known = set()
    names = {t.name for t in tensors}
    for t in tensors:
        if t.name.endswith(("weight_scale_inv", "_scales")):
            continue
        name, expected = t.name, numbers[t.name]
        if t.stored == "fp8":
            scales = numbers[t.module + ".weight_scale_inv"]
            expected = directories.to_bf16(values.fp8_blocks(expected, scales))
        elif t.name.endswith("_blocks"):
            name = t.name.removesuffix("_blocks")
            expected = values.mxfp4(expected, numbers[name + "_scales"])
            expected = directories.to_bf16(expected.transpose(0, 2, 1))
        elif t.name in written and written[t.name][0] != t.dtype:
            found.add(t.row, f"became {written[t.name][0]}", t.name)
        known.add(name)
        if name not in written:
            found.add(t.row, "is missing", name)
        elif written[name][2] != expected.tobytes():
            found.add(t.row, "is not what its codes decode to"
                      if name not in names or t.stored else
                      "is not byte for byte the original's", name)
    for name in sorted(set(written) - known):
        found.add(None, "is not expected", name)
    return found.lines()


def scales(written):
    """Checks that fused modules share the scale of a whole weight."""
    found = Findings()
    for suffix in (".weight_global_scale", ".weight_scale_2"):
        modules = [n.removesuffix(suffix) for n in written if n.endswith(suffix)]
        for module in modules:
            parent, _, leaf = module.rpartition(".")
            for other in (f"{parent}.{name}" for some in TOGETHER
                          if leaf in some for name in sorted(some)):
                if other + suffix in written and (
                        written[other + suffix][2] != written[module + suffix][2]):
                    found.add(None, f"has another {suffix} than {other}", module)
    return found.lines()


def index(folder, written):
    """Checks that an index names every tensor with its file."""
    for path in folder.glob("*.index.json"):
        listed = json.loads(path.read_text())["weight_map"]
        wrong = [name for name in itertools.chain(listed, written)
                 if listed.get(name) != written.get(name, ("",) * 4)[3]]
        if wrong:
            return [f"{path.name}: {wrong[0]} is not in the file that it names"]
    return []
