"""Converts keyword arguments to the option messages of quantd.proto.

The server decides which options may be combined. A combination that it refuses
is raised as `quantd.Invalid`.
"""

import difflib
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from quantd import quantd_pb2 as pb
from quantd import words
from quantd.errors import Invalid, Unimplemented
from quantd.values import flag, is_list, number, numbers, shown, whole
from quantd.words import (
  DType,
  FourOverSix,
  HistoryRule,
  NonFinite,
  Profile,
  ScaleLayout,
  ScaleRule,
  Sides,
  Usage,
)

# One number, or a list with one for each group or line.
Numbers = float | Sequence[float]


class QuantizeKeywords(TypedDict, total=False):
  """Options of `quantize`, `plan` and `Quantizer`. None means the default.

  WIRE.md and FORMATS.md describe each option under the same name. A word may be
  replaced by its number in quantd_pb2. Flags must be True or False, and numbers
  must not be text.

  Attributes:
    usage: Copies to make: "rowwise", "columnwise" or "both"; "none" makes only
      other parts. The default is the copies in `rht`, or else "rowwise".
    profile: The library whose arithmetic is used: "te" (the default) or, for
      example, "modelopt@0.47".
    rht: Copies to rotate first: "rowwise", "columnwise" or "both". True rotates
      the copies in `usage`, or both if it is not given.
    rht_dimension: Number of elements rotated together: 16, 32, 64 or 128.
    sign_mask: Signs of the rotation: bit i is set if sign i is -1. An integer,
      "0x" text, or little-endian bytes. The default is TransformerEngine's.
    non_finite: "ignore", "propagate" or "reject" NaN and Inf.
    given_amax: An amax to use instead of computing one: a number, or one for
      each group or line. It applies to the columnwise copy if `usage` is
      "columnwise", and else to the rowwise copy. A mapping {"rowwise": ...,
      "columnwise": ...} gives both.
    amax_estimation_scale: Estimates the amax after rotation as the amax before
      rotation times this factor.
    scale_layout: "linear" or "swizzled" (tiles of 128 x 4).
    compact_scales: NVFP4_2D: store one scale for each square.
    row_scaled: NVFP4: one amax for each line.
    scale_256: 4over6: the largest block scale is 256.
    stochastic: The seed of stochastic rounding. True draws a seed, which the
      result has as `seed`.
    seed_offset: Selects another random stream of the same seed.
    shard: (row_offset, column_offset, total_columns): where in a larger tensor
      this one lies, for stochastic rounding.
    four_over_six: "mae" or "mse": maps each NVFP4 block to 4 or to 6, whichever
      has the smaller error of this kind.
    fast_error: 4over6: compares errors of scaled values.
    scale_search: NVFP4: tries six scales for each block, and keeps the one with
      the least squared error.
    epsilon: FP8: the smallest amax. Smaller ones are replaced by it.
    power_of_two: FP8: whether scales are powers of two.
    scale: FP8 delayed scaling: the factor, or one for each group.
    history: FP8 delayed scaling: the amax history to update. Any values are
      accepted, even NaN, as WIRE.md says.
    history_rule: "max" or "most_recent".
    history_margin: The next scale is divided by 2^margin.
    scale_rule: MX: "up", "floor", "ceil" or "even".
    splits: Rows of each group. Groups are quantized independently.
    partial_splits: The groups may end before the last row.
    amax: Also return max |x| before rotation.
    dbias: Also return the sum of each column; a type sets the sums' type.
    statistics: Also return SQNR, the largest error, and the numbers of clipped
      and flushed values.
  """

  usage: Usage | None
  profile: Profile | None
  rht: bool | Sides | None
  rht_dimension: int | None
  sign_mask: int | str | bytes | None
  non_finite: NonFinite | None
  given_amax: Numbers | Mapping[str, Numbers] | None
  amax_estimation_scale: float | None
  scale_layout: ScaleLayout | None
  compact_scales: bool | None
  row_scaled: bool | None
  scale_256: bool | None
  stochastic: int | bool | None
  seed_offset: int | None
  shard: tuple[int, int, int] | None
  four_over_six: FourOverSix | None
  fast_error: bool | None
  scale_search: bool | None
  epsilon: float | None
  power_of_two: bool | None
  scale: Numbers | None
  history: Sequence[float] | None
  history_rule: HistoryRule | None
  history_margin: int | None
  scale_rule: ScaleRule | None
  splits: Sequence[int] | None
  partial_splits: bool | None
  amax: bool | None
  dbias: bool | DType | None
  statistics: bool | None


def refuse_unknown(function: str, got: Mapping[str, Any], known: type) -> None:
  """Raises TypeError for an unknown keyword, suggesting a similar one."""
  for name in got:
    if name not in known.__annotations__:
      near = difflib.get_close_matches(name, known.__annotations__, 1)
      if name in ("seed", "rounding") and "stochastic" in known.__annotations__:
        near = ["stochastic"]
      hint = f"; did you mean {near[0]!r}?" if near else ""
      raise TypeError(f"{function}() has no option {name!r}{hint}")


def copies(field: str, word: Any) -> tuple[bool, bool]:
  """Returns whether a usage has the rowwise and the columnwise copy."""
  if word is None or (isinstance(word, str) and word == "none"):
    return False, False
  usage = words.USAGES.parse(field, word, ("rowwise", "columnwise", "both"))
  return bool(usage & pb.USAGE_ROWWISE), bool(usage & pb.USAGE_COLUMNWISE)


def sign_mask_bytes(mask: int | str | bytes, dimension: int) -> bytes:
  """Returns the sign mask as dimension / 8 little-endian bytes."""
  field = "rht.sign_mask"
  if isinstance(mask, (bytes, bytearray)):
    return bytes(mask)
  # The server refuses an illegal dimension, so its mask does not matter.
  bits = min(max(dimension, 16), 128)
  most = (1 << bits) - 1
  if not isinstance(mask, str):
    return whole(field, mask, 0, most).to_bytes(bits // 8, "little")
  if not re.fullmatch(f"(0[xX])?[0-9a-fA-F]{{1,{bits // 4}}}", mask):
    raise Invalid.of(field, f"{bits} bits, like 0xD7E8", shown(mask))
  return int(mask, 16).to_bytes(bits // 8, "little")


def rht_message(
  rowwise: bool,
  columnwise: bool,
  dimension: int = 16,
  sign_mask: int | str | bytes | None = None,
) -> pb.Rht:
  """Builds the message for the rotation of these copies."""
  rht = pb.Rht(rowwise=rowwise, columnwise=columnwise)
  rht.dimension = whole("rht.dimension", dimension, 0, 2**32 - 1)
  if sign_mask is not None:
    rht.sign_mask = sign_mask_bytes(sign_mask, dimension)
  return rht


def splits_message(
  splits: Sequence[int] | None, partial: bool = False
) -> pb.Splits | None:
  """Builds the message for groups of rows, if there are any."""
  partial = flag("partial_splits", partial)
  if splits is None:
    if partial:
      raise Invalid.of("splits", "the rows of each group", "none")
    return None
  if not is_list(splits):
    raise Invalid.of(
      "splits", "a list of the rows of each group", shown(splits)
    )
  rows = [whole("splits", r, -(2**63), 2**63 - 1) for r in splits]
  return pb.Splits(rows=rows, partial=partial)


def _given_amax(given: Any, usage: int) -> pb.GivenAmax:
  if not isinstance(given, Mapping):
    given = {"columnwise" if usage == pb.USAGE_COLUMNWISE else "rowwise": given}
  if not given:
    raise Invalid.of("given_amax", "rowwise, columnwise or both", "none")
  message = pb.GivenAmax()
  for side, values in given.items():
    if side not in ("rowwise", "columnwise"):
      raise Invalid.of("given_amax", "rowwise and columnwise", shown(side))
    found = numbers(f"given_amax.{side}", values)
    if len(found) != 1:
      getattr(message, f"{side}_values").extend(found)
    else:
      setattr(message, side, found[0])
  return message


def _whole(low: int, high: int) -> Callable[[str, Any], int]:
  return lambda field, value: whole(field, value, low, high)


# Options that set one field each: its path, and the function that checks it.
_FIELDS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
  "profile": ("profile", words.PROFILES.parse),
  "non_finite": ("non_finite", words.NON_FINITES.parse),
  "amax_estimation_scale": ("amax_estimation_scale", number),
  "scale_layout": ("form.scale_layout", words.LAYOUTS.parse),
  "compact_scales": ("form.compact_scales", flag),
  "row_scaled": ("form.row_scaled", flag),
  "scale_256": ("form.scale_256", flag),
  "seed_offset": ("stochastic.seed_offset", _whole(0, 2**64 - 1)),
  "four_over_six": ("four_over_six", words.FOUR_OVER_SIXES.parse),
  "fast_error": ("fast_error", flag),
  "scale_search": ("scale_search", flag),
  "epsilon": ("epsilon", number),
  "power_of_two": ("power_of_two", flag),
  "scale": ("scale", numbers),
  "history_rule": ("history.rule", words.HISTORY_RULES.parse),
  "history_margin": ("history.margin", _whole(-(2**31), 2**31 - 1)),
  "scale_rule": ("scale_rule", words.SCALE_RULES.parse),
  "amax": ("amax", flag),
  "statistics": ("statistics", flag),
}


def set_field(message: Any, path: str, value: Any) -> None:
  """Sets a field. A field of an inner message is left out if 0 or False."""
  above, _, name = path.rpartition(".")
  if above and not value:
    return
  inside = getattr(message, above) if above else message
  if isinstance(value, list):
    getattr(inside, name).extend(value)
  else:
    setattr(inside, name, value)


def _set_copies(o: pb.QuantizeOptions, k: Any) -> None:
  """Sets the copies to make and to rotate, and the rotation."""
  turned = k.get("rht")
  if isinstance(turned, (bool, np.bool_)):
    turned = k.get("usage", "both") if turned else None
  rht = copies("rht", turned)
  rotated = rht[0] * pb.USAGE_ROWWISE + rht[1] * pb.USAGE_COLUMNWISE
  usage = k.get("usage", rotated or pb.USAGE_ROWWISE)
  o.usage = words.USAGES.parse("usage", usage)
  if any(rht):
    dimension = k.get("rht_dimension", 16)
    o.rht.CopyFrom(rht_message(*rht, dimension, k.get("sign_mask")))
  elif "sign_mask" in k or "rht_dimension" in k:
    raise Invalid.of("rht", "rowwise, columnwise or both", "none")


def _set_rounding(o: pb.QuantizeOptions, k: Any) -> None:
  seed = k.get("stochastic", False)
  if seed is not False:
    o.rounding = pb.ROUNDING_STOCHASTIC
    # Drawn before the first attempt, so that retries round in the same way.
    drawn = secrets.randbits(64) if seed is True else seed
    o.stochastic.seed = whole("stochastic.seed", drawn, 0, 2**64 - 1)
  if "shard" in k:
    shard = k["shard"]
    if o.rounding != pb.ROUNDING_STOCHASTIC:
      expected = "stochastic, because other rounding depends on no positions"
      raise Invalid.of("shard", expected, "none")
    fields = ("row_offset", "column_offset", "total_columns")
    if not is_list(shard) or len(shard) != 3:
      raise Invalid.of("shard", ", ".join(fields), shown(shard))
    for name, value in zip(fields, shard, strict=True):
      setattr(o.shard, name, whole(f"shard.{name}", value, -(2**63), 2**63 - 1))


def quantize_message(
  format: Any, keywords: QuantizeKeywords
) -> pb.QuantizeOptions:
  """Builds the options of Quantize.

  Example:
    >>> o = quantize_message("nvfp4", {"rht": "columnwise"})
    >>> words.USAGES.word(o.usage)
    'columnwise'
  """
  refuse_unknown("quantize", keywords, QuantizeKeywords)
  k: Any = {name: v for name, v in keywords.items() if v is not None}
  o = pb.QuantizeOptions(
    format=words.FORMATS.parse("format", format),
    splits=splits_message(k.get("splits"), k.get("partial_splits", False)),
  )
  _set_copies(o, k)
  if "given_amax" in k:
    o.given_amax.CopyFrom(_given_amax(k["given_amax"], o.usage))
  if "history" in k:
    if not is_list(k["history"]):
      raise Invalid.of("history.amax", "a list of numbers", shown(k["history"]))
    o.history.amax.extend(numbers("history.amax", k["history"]))
  elif "history_rule" in k or "history_margin" in k:
    raise Invalid.of("history", "an amax history", "none")
  _set_rounding(o, k)
  for name, (path, check) in _FIELDS.items():
    if name in k:
      set_field(o, path, check(path, k[name]))
  dbias = k.get("dbias", False)
  if isinstance(dbias, (bool, np.bool_, int)):
    o.dbias = flag("dbias", dbias)
  else:
    o.dbias = True
    o.dbias_dtype = words.DTYPES.parse("dbias_dtype", dbias, words.FLOATS)
  return o


def dequantize_message(
  made: pb.QuantizeOptions, usage: Any, output: Any
) -> pb.DequantizeOptions:
  """Builds the options to decode a copy that was made with `made`."""
  o = pb.DequantizeOptions(
    format=made.format,
    usage=usage,
    output=output,
    profile=made.profile,
    form=made.form if made.HasField("form") else None,
    splits=made.splits if made.HasField("splits") else None,
  )
  columnwise = usage == pb.USAGE_COLUMNWISE
  if made.rht.columnwise if columnwise else made.rht.rowwise:
    o.inverse_rht.dimension = made.rht.dimension
    if made.rht.HasField("sign_mask"):
      o.inverse_rht.sign_mask = made.rht.sign_mask
  return o


def check_echo(asked: pb.QuantizeOptions, echo: pb.QuantizeOptions) -> None:
  """Raises Unimplemented if the server ignored an option."""
  known = {field.name for field, _ in echo.ListFields()}
  for field, value in asked.ListFields():
    empty = field.message_type is not None and not value.ListFields()
    if field.name not in known and not empty:
      raise Unimplemented(
        f"the server does not know the option {field.name}: its version differs "
        "from this package's"
      )
