"""The words for the enumerations of quantd.proto, such as "nvfp4_2d".

They are derived from the messages, so that every new value has a word. quantctl
and the documentation use the same words.
"""

import re
from typing import Any, Literal, Protocol

import numpy as np
from google.protobuf.descriptor import EnumDescriptor

from quantd import quantd_pb2 as pb
from quantd.errors import Invalid
from quantd.values import shown

# The word of a format, or its number in quantd_pb2.
Format = (
  Literal[
    "nvfp4",
    "nvfp4_2d",
    "fp8_e4m3",
    "fp8_e5m2",
    "mxfp8_e4m3",
    "mxfp8_e5m2",
    "mxfp4",
    "fp8_block_e4m3",
    "fp8_block_e5m2",
    "fp8_block_2d_e4m3",
    "fp8_block_2d_e5m2",
    "fp8_channel_e4m3",
  ]
  | int
)
Profile = (
  Literal[
    "te",
    "modelopt@0.47",
    "modelopt@0.47+cuda",
    "compressed-tensors@0.20",
    "compressed-tensors@0.20+cuda",
    "torchao@0.18",
    "torchao@0.18+cuda",
    "comfy@0.2.40",
    "comfy@0.2.40+cuda",
    "deepgemm",
    "deepgemm+cuda",
    "miles",
  ]
  | int
)
Side = Literal["rowwise", "columnwise"]
Sides = Literal["rowwise", "columnwise", "both"] | int
Usage = Literal["rowwise", "columnwise", "both", "none"] | int
ScaleLayout = Literal["linear", "swizzled"] | int
ScaleRule = Literal["up", "floor", "ceil", "even"] | int
FourOverSix = Literal["off", "mae", "mse"] | int
NonFinite = Literal["ignore", "propagate", "reject"] | int
HistoryRule = Literal["max", "most_recent"] | int
AmaxDomain = Literal["tensor", "row"] | int
Priority = Literal["high", "normal", "low"]


class TorchDType(Protocol):
  """The type torch.dtype, for type checks without PyTorch."""

  @property
  def is_floating_point(self) -> bool:
    """Whether its values are floating-point numbers."""


# An element type: its word, or a type of numpy, PyTorch or JAX.
DType = Literal["f32", "f16", "bf16"] | np.dtype[Any] | type[Any] | TorchDType


def _profile(name: str) -> str:
  """Converts MODELOPT_0_47_CUDA to "modelopt@0.47+cuda"."""
  parts = re.fullmatch(r"([A-Z_]+?)((?:_\d+)*)(_CUDA)?", name)
  assert parts is not None, name
  library = parts[1].lower().replace("_", "-")
  version = parts[2].lstrip("_").replace("_", ".")
  return (
    library + (f"@{version}" if version else "") + ("+cuda" if parts[3] else "")
  )


class Words:
  """The words of one enumeration."""

  def __init__(self, enum: EnumDescriptor) -> None:
    """Makes words from the names of a protobuf enum.

    In the name of number 0, one word follows the prefix of all names.
    """
    prefix = enum.values_by_number[0].name.rpartition("_")[0] + "_"
    spell = _profile if prefix == "PROFILE_" else str.lower
    self._words = {
      value.number: spell(value.name[len(prefix) :])
      for value in enum.values
      if not value.name.endswith("_UNSPECIFIED")
    }
    self._numbers = {word: number for number, word in self._words.items()}

  def __iter__(self) -> Any:
    """Iterates over all words, ordered by number."""
    return iter(self._words.values())

  def parse(self, field: str, word: Any, only: tuple[str, ...] = ()) -> Any:
    """Returns the number of a word, which must be in `only` if given."""
    number: Any = self._numbers.get(word) if isinstance(word, str) else word
    legal = only or tuple(self._words.values())
    if type(number) is not int or self._words.get(number) not in legal:
      raise Invalid.of(field, " or ".join(legal), shown(word))
    return number

  def word(self, number: int) -> str:
    """Returns the word for a number from a server."""
    return self._words.get(number, f"number {number}")


class _Types(Words):
  """The words of element types. Also parses types of other libraries."""

  def parse(self, field: str, word: Any, only: tuple[str, ...] = ()) -> Any:
    """Returns the number of a word, or of a type of numpy, PyTorch or JAX."""
    if not isinstance(word, (str, int)):
      name = getattr(word, "__name__", None) or getattr(word, "name", None)
      name = name if isinstance(name, str) else shown(word)
      word = _OF_LIBRARIES.get(name.removeprefix("torch."), word)
    return super().parse(field, word, only)

  def float_word(self, field: str, word: Any) -> str:
    """Returns the word of a type that tensors can have."""
    return self.word(self.parse(field, word, FLOATS))


_OF_LIBRARIES = {
  "float32": "f32",
  "float16": "f16",
  "bfloat16": "bf16",
  "float8_e4m3fn": "e4m3",
  "float8_e5m2": "e5m2",
  "float8_e8m0fnu": "e8m0",
}
FLOATS = ("f32", "f16", "bf16")
DTYPES = _Types(pb.DType.DESCRIPTOR)
FORMATS = Words(pb.Format.DESCRIPTOR)
PROFILES = Words(pb.Profile.DESCRIPTOR)
USAGES = Words(pb.Usage.DESCRIPTOR)
ROUNDINGS = Words(pb.Rounding.DESCRIPTOR)
SCALE_RULES = Words(pb.ScaleRule.DESCRIPTOR)
FOUR_OVER_SIXES = Words(pb.FourOverSix.DESCRIPTOR)
AMAX_DOMAINS = Words(pb.AmaxDomain.DESCRIPTOR)
HISTORY_RULES = Words(pb.HistoryRule.DESCRIPTOR)
NON_FINITES = Words(pb.NonFinite.DESCRIPTOR)
LAYOUTS = Words(pb.Layout.DESCRIPTOR)
KINDS = Words(pb.TensorKind.DESCRIPTOR)
# Priorities of waiting calls, highest first. They are sent as metadata, by
# name.
PRIORITIES = ("high", "normal", "low")
