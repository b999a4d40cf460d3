"""Converts keyword arguments to the option messages of quantd.proto.

No other module knows the names of options. The server decides which options may
be combined. What it refuses is raised as `quantd.Invalid`.
"""

import difflib
import functools
import re
import secrets
from collections.abc import Mapping, Sequence
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

__all__ = [
  "Numbers",
  "QuantizeKeywords",
  "check_echo",
  "copies",
  "dequantize_message",
  "flag",
  "quantize_message",
  "refuse_unknown",
  "rht_message",
  "sign_mask_bytes",
  "splits_message",
  "whole",
]

# One number, or a list with one for each group or line.
Numbers = float | Sequence[float]


class QuantizeKeywords(TypedDict, total=False):
  """Options of `quantize`, `plan` and `Quantizer`, all of them optional.

  WIRE.md and FORMATS.md describe each option under the same name. A word may be
  replaced by its number in quantd_pb2. Flags must be True or False, and numbers
  must not be text.

  Attributes:
    usage: Copies to make: "rowwise", "columnwise" or "both"; "none" makes only
      other parts. The default is the copies in `rht`, or else "rowwise".
    profile: The library whose arithmetic is used: "te" (the default) or, for
      example, "modelopt@0.47".
    rht: Copies to rotate first: "rowwise", "columnwise", "both", or True for
      the copies in `usage`, or else both.
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
    shard: (row_offset, column_offset, total_columns) in the whole tensor.
    four_over_six: "mae" or "mse": maps each NVFP4 block to 4 or to 6.
    fast_error: 4over6: compares errors before scaling back.
    epsilon: FP8: the smallest amax. Smaller ones are replaced by it.
    power_of_two: FP8: whether scales are powers of two.
    scale: FP8 delayed scaling: the factor, or one for each group.
    history: FP8 delayed scaling: the amax history to update. Any values are
      accepted, even NaN, as WIRE.md says.
    history_rule: "max" or "most_recent".
    history_margin: The next scale is 2^margin smaller.
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
  rht_dimension: int
  sign_mask: int | str | bytes | None
  non_finite: NonFinite
  given_amax: Numbers | Mapping[str, Numbers] | None
  amax_estimation_scale: float | None
  scale_layout: ScaleLayout | None
  compact_scales: bool
  row_scaled: bool
  scale_256: bool
  stochastic: int | bool | None
  seed_offset: int
  shard: tuple[int, int, int] | None
  four_over_six: FourOverSix | None
  fast_error: bool
  epsilon: float
  power_of_two: bool | None
  scale: Numbers | None
  history: Sequence[float] | None
  history_rule: HistoryRule
  history_margin: int
  scale_rule: ScaleRule | None
  splits: Sequence[int] | None
  partial_splits: bool
  amax: bool
  dbias: bool | DType
  statistics: bool


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


def splits_message(splits: Sequence[int], partial: bool = False) -> pb.Splits:
  """Builds the message for groups of rows."""
  if not is_list(splits):
    raise Invalid.of("splits", "a list of the rows of each group", shown(splits))
  rows = [whole("splits", r, -(2**63), 2**63 - 1) for r in splits]
  return pb.Splits(rows=rows, partial=flag("partial_splits", partial))


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


def _usage(keywords: QuantizeKeywords, rht: tuple[bool, bool]) -> Any:
  word = keywords.get("usage")
  if word is not None:
    return words.USAGES.parse("usage", word)
  rotated = rht[0] * pb.USAGE_ROWWISE + rht[1] * pb.USAGE_COLUMNWISE
  return rotated or pb.USAGE_ROWWISE


def _fill_scales(o: pb.QuantizeOptions, k: QuantizeKeywords) -> None:
  if k.get("given_amax") is not None:
    o.given_amax.CopyFrom(_given_amax(k["given_amax"], o.usage))
  estimate = k.get("amax_estimation_scale")
  if estimate is not None:
    o.amax_estimation_scale = number("amax_estimation_scale", estimate)
  o.epsilon = number("epsilon", k.get("epsilon", 0.0))
  power = k.get("power_of_two")
  if power is not None:
    o.power_of_two = flag("power_of_two", power)
  if k.get("scale") is not None:
    o.scale.extend(numbers("scale", k["scale"]))
  history = k.get("history")
  if history is not None:
    if not is_list(history):
      raise Invalid.of("history.amax", "a list of numbers", shown(history))
    o.history.amax.extend(numbers("history.amax", history))
    o.history.rule = words.HISTORY_RULES.parse(
      "history.rule", k.get("history_rule", "max")
    )
    margin = k.get("history_margin", 0)
    o.history.margin = whole("history.margin", margin, -(2**31), 2**31 - 1)
  elif "history_rule" in k or "history_margin" in k:
    raise Invalid.of("history", "an amax history", "none")
  rule = k.get("scale_rule")
  if rule is not None:
    o.scale_rule = words.SCALE_RULES.parse("scale_rule", rule)
  if (six := k.get("four_over_six")) is not None:
    o.four_over_six = words.FOUR_OVER_SIXES.parse("four_over_six", six)
  o.fast_error = flag("fast_error", k.get("fast_error", False))


def _fill_form(o: pb.QuantizeOptions, k: QuantizeKeywords) -> None:
  layout = k.get("scale_layout")
  if layout is not None:
    o.form.scale_layout = words.LAYOUTS.parse("form.scale_layout", layout)
  for name in ("compact_scales", "row_scaled", "scale_256"):
    if flag(name, k.get(name, False)):
      setattr(o.form, name, True)


def _fill_rounding(o: pb.QuantizeOptions, k: QuantizeKeywords) -> None:
  seed = k.get("stochastic")
  if seed is not None and seed is not False:
    o.rounding = pb.ROUNDING_STOCHASTIC
    # Drawn before the first attempt, so that retries round in the same way.
    drawn = secrets.randbits(64) if seed is True else seed
    o.stochastic.seed = whole("stochastic.seed", drawn, 0, 2**64 - 1)
  offset = whole(
    "stochastic.seed_offset", k.get("seed_offset", 0), 0, 2**64 - 1
  )
  if offset:
    o.stochastic.seed_offset = offset
  shard = k.get("shard")
  if shard is not None:
    if o.rounding != pb.ROUNDING_STOCHASTIC:
      raise Invalid.of(
        "shard", "stochastic, since only it depends on positions", "none"
      )
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
  k = keywords
  refuse_unknown("quantize", k, QuantizeKeywords)
  o = pb.QuantizeOptions(format=words.FORMATS.parse("format", format))
  turned: Any = k.get("rht")
  if isinstance(turned, (bool, np.bool_)):
    turned = (k.get("usage") or "both") if turned else None
  rht = copies("rht", turned)
  o.usage = _usage(k, rht)
  if any(rht):
    dimension = k.get("rht_dimension", 16)
    o.rht.CopyFrom(rht_message(*rht, dimension, k.get("sign_mask")))
  elif k.get("sign_mask") is not None or "rht_dimension" in k:
    raise Invalid.of("rht", "rowwise, columnwise or both", "none")
  if (profile := k.get("profile")) is not None:
    o.profile = words.PROFILES.parse("profile", profile)
  policy = k.get("non_finite", "ignore")
  o.non_finite = words.NON_FINITES.parse("non_finite", policy)
  _fill_scales(o, k)
  _fill_form(o, k)
  _fill_rounding(o, k)
  splits = k.get("splits")
  if splits is not None:
    o.splits.CopyFrom(splits_message(splits, k.get("partial_splits", False)))
  elif flag("partial_splits", k.get("partial_splits", False)):
    raise Invalid.of("splits", "the rows of each group", "none")
  o.amax = flag("amax", k.get("amax", False))
  dbias = k.get("dbias", False)
  if isinstance(dbias, (bool, np.bool_, int)):
    o.dbias = flag("dbias", dbias)
  else:
    o.dbias = True
    o.dbias_dtype = words.DTYPES.parse("dbias_dtype", dbias, words.FLOATS)
  o.statistics = flag("statistics", k.get("statistics", False))
  return o


def dequantize_message(
  made: pb.QuantizeOptions, usage: Any, output: Any
) -> pb.DequantizeOptions:
  """Builds the options to decode a copy that was made with `made`."""
  o = pb.DequantizeOptions(
    format=made.format, usage=usage, output=output, profile=made.profile
  )
  columnwise = usage == pb.USAGE_COLUMNWISE
  if made.HasField("rht") and (
    made.rht.columnwise if columnwise else made.rht.rowwise
  ):
    o.inverse_rht.dimension = made.rht.dimension
    if made.rht.HasField("sign_mask"):
      o.inverse_rht.sign_mask = made.rht.sign_mask
  if made.HasField("form"):
    o.form.CopyFrom(made.form)
  if made.HasField("splits"):
    o.splits.CopyFrom(made.splits)
  return o


def check_echo(asked: pb.QuantizeOptions, echo: pb.QuantizeOptions) -> None:
  """Raises Unimplemented if the server ignored an option."""
  _check_echo(asked.SerializeToString(), echo.SerializeToString())


@functools.lru_cache(maxsize=256)
def _check_echo(ours: bytes, theirs: bytes) -> None:
  """Compares serialized options. Cached, because programs repeat them."""
  asked = pb.QuantizeOptions.FromString(ours)
  echo = pb.QuantizeOptions.FromString(theirs)
  known = {field.name for field, _ in echo.ListFields()}
  for field, value in asked.ListFields():
    empty = field.message_type is not None and not value.ListFields()
    if field.name not in known and not empty:
      raise Unimplemented(
        f"the server does not know the option {field.name}: its version differs "
        "from this package's"
      )
