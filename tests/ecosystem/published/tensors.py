"""The tensors of a published model, from the lines of a table.

A model is a dictionary:

  name, hub    its usual name, and where it is published
  config       its config.json; "$H" stands for the number H
  numbers      the numbers that letters in lines stand for
  step         widths of the small copy are multiples of this; 32 by default
  sets         lists of layers that lines use by name: {MOE}
  shards       its number of files; 0: one file without an index
  dtype        the type of tensors whose line has none; BF16 by default
  rows         lines, each for a family of tensors
  runs         runs of quantctl, by default USUAL: dialect and format; `also`,
               further ones for the small copy; `refused`, text of the error
  mapper       vLLM's renaming, for engine.py
  parts        False if no engine that loads it matches parts of ModelOpt's names
  stem, others names of its files, and other files

A line has the expectation, the name, the shape, options, and "# reason":

  quant model.layers.{0-31}.self_attn.{q,o}_proj.weight H,H
  stack model.layers.{MOE}.moe.gate_proj.weight E,I,H as experts.*.gate_proj
  plain model.layers.{MOE}.mlp.gate.weight E,H dtype=F32  # vLLM: GateLinear

  quant   quantized, and not ignored by any engine
  plain   a matrix that stays unquantized, and that config.json lists
  copy    not a linear layer: stays as it is and need not be listed
  any     either quantized, or unquantized and listed
  stack   experts in one tensor: quantized by the names that `as` gives (with !
          after them if stored as K x N), or all unquantized and then listed by
          the names that engines use
  tied    missing: a head that shares the embeddings' tensor and must be listed

The option `bias` adds a copied row: a bias for each row of the weight.
"""

import dataclasses
import itertools
import math
import re

BITS = {"F64": 64, "F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "U8": 8,
        "I64": 64, "I32": 32}
WORDS = ("quant", "plain", "copy", "any", "stack", "tied")
FEW = {"E": 2}  # numbers with these values in a small copy


@dataclasses.dataclass
class Row:
    """A line of a model's table."""
    word: str
    template: str
    shape: str
    why: str
    split: str = ""
    dtype: str = ""
    stored: str = ""


@dataclasses.dataclass
class Tensor:
    """A tensor of a directory; `row` is its line in the table."""
    name: str
    dtype: str
    shape: tuple
    row: Row
    # Its format in the published files: "" for unquantized, fp8 or int4.
    stored: str = ""

    @property
    def size(self):
        return math.prod(self.shape) * BITS[self.dtype] // 8

    @property
    def module(self):
        return self.name.removesuffix(".weight")


def rows_of(model):
    """Returns the lines of a model's table."""
    rows = []
    for text in model["rows"].strip().splitlines():
        line, _, why = text.partition("#")
        words = line.split()
        if not words:
            continue
        if words[0] not in WORDS:
            raise ValueError(f"{model['name']}: {text}")
        if words[0] == "tied":
            rows.append(Row("tied", words[1], "", why.strip()))
            continue
        row = Row(words[0], words[1], words[2], why.strip(),
                  dtype=model.get("dtype", "BF16"))
        rest, bias = iter(words[3:]), None
        for option in rest:
            if option == "as":
                row.split = next(rest)
            elif option.startswith("dtype="):
                row.dtype = option[6:]
            elif option in ("fp8", "int4"):
                row.stored = option
            elif option == "bias":
                bias = Row("copy", row.template.removesuffix("weight") + "bias",
                           row.shape.split(",")[0], "", dtype=row.dtype)
            else:
                raise ValueError(f"{model['name']}: {text}")
        rows += [row, bias] if bias else [row]
    return rows


def choices(brace, sets, few):
    """Returns the values of a brace in a name: "0-31", "q,o" or "MOE"."""
    if brace in sets:
        return [str(n) for n in (sets[brace][:1] if few else sets[brace])]
    span = re.fullmatch(r"(\d+)-(\d+)", brace)
    if span is None:
        return brace.split(",")
    numbers = range(int(span[1]), int(span[2]) + 1)
    return [str(n) for n in (numbers[:few] if few else numbers)]


def names_of(template, sets, small):
    """Returns every name of a template, or for a small copy those of one layer and two experts."""
    parts = re.split(r"\{([^}]*)\}", template)
    lists = []
    for at in range(1, len(parts), 2):
        few = (2 if "expert" in parts[at - 1] else 1) if small else 0
        lists.append(choices(parts[at], sets, few))
    for chosen in itertools.product(*lists):
        yield "".join(text for pair in itertools.zip_longest(
            parts[::2], chosen, fillvalue="") for text in pair)


def narrow(model):
    """Returns small dimensions in place of a model's large ones. Different ones
    stay different, and all are multiples of what formats require."""
    numbers, step = model["numbers"], model.get("step", 32)
    order = {value: 128 + step * i for i, value in enumerate(
        sorted({v for v in numbers.values() if v > 64}))}
    return {key: FEW.get(key, order.get(value, value))
            for key, value in numbers.items()}


def fill(config, numbers):
    """Returns a config.json with numbers in place of letters."""
    if isinstance(config, dict):
        return {key: fill(value, numbers) for key, value in config.items()}
    if isinstance(config, list):
        return [fill(value, numbers) for value in config]
    if isinstance(config, str) and config.startswith("$"):
        return numbers[config[1:]]
    return config


def dimension(text, numbers):
    """Evaluates a dimension like "2*I", "Q+G" or "H/32"."""
    def value(word):
        return int(word) if word.isdigit() else numbers[word]

    def term(part):
        product, *below = part.split("/")
        return (math.prod(map(value, product.split("*")))
                // math.prod(map(value, below)))
    return sum(map(term, text.split("+")))


def stored_parts(row, name, shape):
    """Returns the tensors of a weight in the published files."""
    module = name.removesuffix(".weight")
    if row.stored == "fp8":
        blocks = tuple(-(-d // 128) for d in shape)
        return [(name, "F8_E4M3", shape),
                (module + ".weight_scale_inv", "F32", blocks)]
    if row.stored == "int4":
        return [(module + ".weight_packed", "I32", (shape[0], shape[1] // 8)),
                (module + ".weight_scale", "BF16", (shape[0], shape[1] // 32)),
                (module + ".weight_shape", "I32", (2,))]
    return [(name, row.dtype, shape)]


def tensors_of(model, small=False):
    """Returns all tensors of a model, in the order of the table's lines."""
    numbers = narrow(model) if small else model["numbers"]
    tensors = []
    for row in rows_of(model):
        if row.word == "tied":
            continue
        shape = () if row.shape == "-" else tuple(
            dimension(text, numbers) for text in row.shape.split(","))
        for name in names_of(row.template, model.get("sets", {}), small):
            tensors += [Tensor(n, dtype, s, row, row.stored)
                        for n, dtype, s in stored_parts(row, name, shape)]
    return tensors


def config_of(model, small=False):
    """Returns the model's config.json."""
    numbers = narrow(model) if small else model["numbers"]
    return fill(model["config"], numbers)


def split_of(tensor):
    """Returns (module, expert, first row, rows, cols) for each matrix of a
    stack, and whether it is stored as K x N."""
    turned = tensor.row.split.endswith("!")
    experts, *dims = tensor.shape
    rows, cols = dims[::-1] if turned else dims
    parent = tensor.name.removesuffix(".weight").rsplit(".", 1)[0]
    parts = tensor.row.split.rstrip("!").split("+")
    each = rows // len(parts)
    split = []
    for expert in range(experts):
        for i, part in enumerate(parts):
            module = f"{parent}.{part.replace('*', str(expert))}"
            split.append((module, expert, i * each, each, cols))
    return split, turned
