"""The words for the enumerations of quantd.proto: "nvfp4_2d", "rowwise".

Made from the messages, so that a value that is new there has its word here.
They are those that quantctl and the pages use.
"""

import re
from typing import Any

from quantd import quantd_pb2 as pb
from quantd.errors import Invalid
from quantd.values import shown

# A word, or the number of quantd_pb2.
Word = str | int


def _plain(name: str) -> str:
  return name.lower()


def _profile(name: str) -> str:
  """MODELOPT_0_47_CUDA is "modelopt@0.47+cuda"."""
  parts = re.fullmatch(r"([A-Z_]+?)((?:_\d+)*)(_CUDA)?", name)
  assert parts is not None, name
  library = parts[1].lower().replace("_", "-")
  version = parts[2].lstrip("_").replace("_", ".")
  return (
    library + (f"@{version}" if version else "") + ("+cuda" if parts[3] else "")
  )


class Words:
  """One enumeration."""

  def __init__(self, enum: Any, prefix: str) -> None:
    """Takes the enumeration's wrapper, and what its names begin with."""
    spell = _profile if prefix == "PROFILE_" else _plain
    self._words = {
      number: spell(name[len(prefix) :])
      for name, number in enum.items()
      if not name.endswith("_UNSPECIFIED")
    }
    self._numbers = {word: number for number, word in self._words.items()}

  def __iter__(self) -> Any:
    """All words, in the order of their numbers."""
    return iter(self._words.values())

  def parse(self, field: str, word: Word, only: tuple[str, ...] = ()) -> Any:
    """The number for a word; of `only` these where that is not empty."""
    number: Any = self._numbers.get(word) if isinstance(word, str) else word
    legal = only or tuple(self._words.values())
    if type(number) is not int or self._words.get(number) not in legal:
      raise Invalid.of(field, " or ".join(legal), shown(word))
    return number

  def word(self, number: int) -> str:
    """The word for a number that came from a server."""
    return self._words.get(number, f"number {number}")


DTYPES = Words(pb.DType, "DTYPE_")
FORMATS = Words(pb.Format, "FORMAT_")
PROFILES = Words(pb.Profile, "PROFILE_")
USAGES = Words(pb.Usage, "USAGE_")
ROUNDINGS = Words(pb.Rounding, "ROUNDING_")
SCALE_RULES = Words(pb.ScaleRule, "SCALE_RULE_")
FOUR_OVER_SIXES = Words(pb.FourOverSix, "FOUR_OVER_SIX_")
AMAX_DOMAINS = Words(pb.AmaxDomain, "AMAX_DOMAIN_")
HISTORY_RULES = Words(pb.HistoryRule, "HISTORY_RULE_")
NON_FINITES = Words(pb.NonFinite, "NON_FINITE_")
LAYOUTS = Words(pb.Layout, "LAYOUT_")
KINDS = Words(pb.TensorKind, "TENSOR_KIND_")
FLOATS = ("f32", "f16", "bf16")
# Who goes first where calls wait: metadata, and no number of the wire.
PRIORITIES = ("high", "normal", "low")
