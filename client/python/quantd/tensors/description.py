"""The JSON description of a tensor in a file, as in the C++ library."""

import json
from typing import Any

import numpy as np

from quantd import options
from quantd import quantd_pb2 as pb
from quantd.errors import Invalid
from quantd.tensors import geometry
from quantd.tensors.described import Described
from quantd.words import (
  DTYPES,
  FLOATS,
  FORMATS,
  FOUR_OVER_SIXES,
  LAYOUTS,
  NON_FINITES,
  PROFILES,
  ROUNDINGS,
  SCALE_RULES,
  USAGES,
)

# Most descriptions have about 300 bytes. A list of splits is the longest part.
_MOST = 2 << 20


def _number(value: float) -> str:
  """Formats a number as the C++ library does: the shortest exact text."""
  text = repr(float(value))
  digits, _, exponent = text.partition("e")
  if not exponent and len(digits.split(".")[0].lstrip("-")) > 15:
    # Python changes to exponents one digit later than the C++ library.
    whole = digits.split(".")[0].lstrip("-")
    figures = whole.rstrip("0")
    text = ("-" if value < 0 else "") + figures[0]
    text += ("." + figures[1:] if figures[1:] else "") + f"e+{len(whole) - 1}"
  return text


def _text(value: Any) -> str:
  if isinstance(value, dict):
    inside = ",".join(
      f"{_text(k)}:{_text(v)}" for k, v in sorted(value.items())
    )
    return f"{{{inside}}}"
  if isinstance(value, (list, tuple)):
    return f"[{','.join(map(_text, value))}]"
  if isinstance(value, float):
    return _number(value)
  return json.dumps(value, ensure_ascii=False)


def _describe_rht(rht: pb.Rht) -> dict[str, Any]:
  dimension = rht.dimension or 16
  mask = (
    rht.sign_mask
    if rht.HasField("sign_mask")
    else b"\xe8\xd7" * (dimension // 16)
  )
  return {
    "rowwise": rht.rowwise,
    "columnwise": rht.columnwise,
    "dimension": dimension,
    "sign_mask": "0x" + mask[::-1].hex().upper(),
  }


def describe(t: Described) -> str:
  """Writes everything needed for decoding, and the options."""
  o = t.options
  j: dict[str, Any] = {
    "format": t.format,
    "shape": list(t.shape),
    "dtype": t.dtype,
    "flatten_axis": t.flatten_axis,
    "usage": t.usage,
    "rht": _describe_rht(o.rht),
    "non_finite": NON_FINITES.word(o.non_finite),
    "scale_layout": LAYOUTS.word(o.form.scale_layout or pb.LAYOUT_LINEAR),
  }
  for flag in ("compact_scales", "row_scaled", "scale_256"):
    if getattr(o.form, flag):
      j[flag] = True
  if o.HasField("splits"):
    j["splits"] = list(o.splits.rows)
    if o.splits.partial:
      j["partial_splits"] = True
  if o.rounding != pb.ROUNDING_NEAREST:
    j["rounding"] = ROUNDINGS.word(o.rounding)
    j["seed"] = o.stochastic.seed
    j["seed_offset"] = o.stochastic.seed_offset
    shard = o.shard
    j["shard"] = [shard.row_offset, shard.column_offset, shard.total_columns]
  if o.four_over_six:
    j["four_over_six"] = FOUR_OVER_SIXES.word(o.four_over_six)
  if o.fast_error:
    j["fast_error"] = True
  if o.HasField("amax_estimation_scale"):
    j["amax_estimation_scale"] = float(o.amax_estimation_scale)
  if o.epsilon:
    j["epsilon"] = float(o.epsilon)
  if o.HasField("power_of_two"):
    j["power_of_two"] = o.power_of_two
  if o.HasField("scale_rule") and (
    o.scale_rule != pb.SCALE_RULE_UP or o.profile
  ):
    j["scale_rule"] = SCALE_RULES.word(o.scale_rule)
  if o.profile:
    j["profile"] = t.profile
  if o.amax:
    j["amax"] = True
  if o.dbias:
    j["dbias"] = DTYPES.word(o.dbias_dtype) if o.dbias_dtype else t.dtype
  return _text(j)


class _Fields:
  """Reads fields of a JSON object. Raises ValueError for a wrong type."""

  def __init__(self, found: Any) -> None:
    if not isinstance(found, dict):
      raise ValueError("not an object")
    self.found = found

  def get(self, key: str, kind: type, default: Any = None) -> Any:
    if key not in self.found and default is not None:
      return default
    value = self.found.get(key)
    if kind is float and type(value) is int:
      value = float(value)
    if type(value) is not kind:
      raise ValueError(key)
    if isinstance(value, float) and not abs(value) <= 3.4028234663852886e38:
      raise ValueError(key)
    return value

  def sizes(self, key: str) -> list[int]:
    values = self.get(key, list)
    if any(type(v) is not int or not 0 <= v < 2**63 for v in values):
      raise ValueError(key)
    return list(values)


def _parse_rht(f: _Fields, o: pb.QuantizeOptions) -> None:
  rowwise, columnwise = f.get("rowwise", bool), f.get("columnwise", bool)
  dimension, mask = f.get("dimension", int), f.get("sign_mask", str)
  if dimension not in (16, 32, 64, 128) or len(mask) != 2 + dimension // 4:
    raise ValueError("rht")
  signs = options.sign_mask_bytes(mask, dimension)
  if rowwise or columnwise:
    o.rht.CopyFrom(
      pb.Rht(
        rowwise=rowwise,
        columnwise=columnwise,
        dimension=dimension,
        sign_mask=signs,
      )
    )


def _parse_options(f: _Fields, o: pb.QuantizeOptions) -> None:
  """Parses keys that did not exist in version 1."""
  for flag in ("compact_scales", "row_scaled", "scale_256"):
    if f.get(flag, bool, False):
      setattr(o.form, flag, True)
  if "splits" in f.found:
    o.splits.rows.extend(f.sizes("splits"))
    o.splits.partial = f.get("partial_splits", bool, False)
  o.rounding = ROUNDINGS.parse("rounding", f.get("rounding", str, "nearest"))
  if o.rounding == pb.ROUNDING_STOCHASTIC:
    o.stochastic.seed = f.get("seed", int, 0)
    o.stochastic.seed_offset = f.get("seed_offset", int, 0)
    if "shard" in f.found:
      rows, columns, total = f.sizes("shard")
      o.shard.row_offset, o.shard.column_offset = rows, columns
      o.shard.total_columns = total
  six = f.get("four_over_six", str, "off")
  o.four_over_six = FOUR_OVER_SIXES.parse("four_over_six", six)
  o.fast_error = f.get("fast_error", bool, False)
  if "amax_estimation_scale" in f.found:
    o.amax_estimation_scale = f.get("amax_estimation_scale", float)
  o.epsilon = f.get("epsilon", float, 0.0)
  if "power_of_two" in f.found:
    o.power_of_two = f.get("power_of_two", bool)
  if "scale_rule" in f.found:
    o.scale_rule = SCALE_RULES.parse("scale_rule", f.get("scale_rule", str))
  o.profile = PROFILES.parse("profile", f.get("profile", str, "te"))
  o.amax = f.get("amax", bool, False)
  if "dbias" in f.found:
    o.dbias = True
    o.dbias_dtype = DTYPES.parse("dbias", f.get("dbias", str), FLOATS)


def parse_description(text: Any) -> tuple[pb.Tensor, pb.QuantizeOptions] | None:
  """Returns the tensor and its options. None if `text` is malformed."""
  if not isinstance(text, str) or len(text) > _MOST:
    return None
  try:
    f = _Fields(json.loads(text))
    o = pb.QuantizeOptions(
      format=FORMATS.parse("format", f.get("format", str)),
      usage=USAGES.parse("usage", f.get("usage", str)),
      non_finite=NON_FINITES.parse("non_finite", f.get("non_finite", str)),
    )
    shape = f.sizes("shape")
    axis = f.get("flatten_axis", int)
    legal = (
      -len(shape) < axis < len(shape)
      and axis != 0
      or (len(shape), axis) == (1, -1)
    )
    if (
      not 1 <= len(shape) <= 8
      or not legal
      or np.prod(shape, dtype=float) > 2**48
    ):
      return None
    tensor = pb.Tensor(
      dtype=DTYPES.parse("dtype", f.get("dtype", str), FLOATS),
      shape=shape,
      flatten_axis=axis,
    )
    layout = LAYOUTS.parse("scale_layout", f.get("scale_layout", str))
    _parse_options(f, o)
    if layout == pb.LAYOUT_SWIZZLED:
      o.form.scale_layout = layout
    _parse_rht(_Fields(f.found.get("rht")), o)
    rows = geometry.sides(shape, axis)[0]
    if o.HasField("splits"):
      total = sum(o.splits.rows)
      if (
        total > rows
        or (total < rows and not o.splits.partial)
        or not o.splits.rows
      ):
        return None
  except (ValueError, TypeError, OverflowError, Invalid, RecursionError):
    return None
  return tensor, o
