"""The JSON description of a tensor in a file, as in the C++ library."""

import json
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from quantd import options
from quantd import quantd_pb2 as pb
from quantd.errors import Invalid
from quantd.tensors.assembling import check_splits, tensor_from_elsewhere
from quantd.tensors.described import Described
from quantd.words import (
  DTYPES,
  FLOATS,
  LAYOUTS,
  NON_FINITES,
  Words,
)

# Fields of QuantizeOptions that a description omits or writes in a form of
# their own. Every other field has a key of its name, also if it lies inside a
# message: a new option is kept without a line here.
_OTHERS = {
  "given_amax",
  "scale",
  "history",
  "statistics",
  "rht",
  "splits",
  "shard",
  "dbias",
  "dbias_dtype",
}
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


def _write(message: Any, j: dict[str, Any]) -> None:
  """Writes all fields that are set."""
  for field, value in message.ListFields():
    if field.name in _OTHERS:
      continue
    if field.message_type is not None:
      _write(value, j)
    elif field.enum_type is not None:
      j[field.name] = Words(field.enum_type).word(value)
    else:
      j[field.name] = value


def describe(t: Described) -> str:
  """Writes everything needed for decoding, and the options."""
  o = t.options
  j: dict[str, Any] = {
    "non_finite": NON_FINITES.word(o.non_finite),
    "scale_layout": LAYOUTS.word(pb.LAYOUT_LINEAR),
    "rht": _describe_rht(o.rht),
  }
  _write(o, j)
  j["format"] = t.format
  j["shape"] = list(t.shape)
  j["dtype"] = t.dtype
  j["flatten_axis"] = t.flatten_axis
  j["usage"] = t.usage
  if j.get("scale_rule") == "up" and not o.profile:
    del j["scale_rule"]
  if o.HasField("splits"):
    j["splits"] = list(o.splits.rows)
    if o.splits.partial:
      j["partial_splits"] = True
  if o.rounding == pb.ROUNDING_STOCHASTIC:
    j["seed"] = o.stochastic.seed
    j["seed_offset"] = o.stochastic.seed_offset
    shard = o.shard
    j["shard"] = [shard.row_offset, shard.column_offset, shard.total_columns]
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


# Types of values in JSON; all others are integers.
_KINDS = {
  FieldDescriptor.CPPTYPE_FLOAT: float,
  FieldDescriptor.CPPTYPE_BOOL: bool,
}


def _read(f: _Fields, message: Any) -> None:
  """Reads what `_write` wrote. A missing key leaves its field unset."""
  for field in message.DESCRIPTOR.fields:
    name = field.name
    if name in _OTHERS:
      continue
    if field.message_type is not None:
      _read(f, getattr(message, name))
    elif name in f.found and field.enum_type is not None:
      words = Words(field.enum_type)
      setattr(message, name, words.parse(name, f.get(name, str)))
    elif name in f.found:
      kind = _KINDS.get(field.cpp_type, int)
      setattr(message, name, f.get(name, kind))


def _read_own_forms(f: _Fields, o: pb.QuantizeOptions) -> None:
  """Reads the fields that have a form of their own, except the rotation."""
  if "splits" in f.found:
    o.splits.rows.extend(f.sizes("splits"))
    o.splits.partial = f.get("partial_splits", bool, False)
  if o.rounding == pb.ROUNDING_STOCHASTIC and "shard" in f.found:
    rows, columns, total = f.sizes("shard")
    o.shard.row_offset, o.shard.column_offset = rows, columns
    o.shard.total_columns = total
  if "dbias" in f.found:
    o.dbias = True
    o.dbias_dtype = DTYPES.parse("dbias", f.get("dbias", str), FLOATS)


def parse_description(text: Any) -> tuple[pb.Tensor, pb.QuantizeOptions] | None:
  """Returns the tensor and its options. None if `text` is malformed."""
  if not isinstance(text, str) or len(text) > _MOST:
    return None
  try:
    f = _Fields(json.loads(text))
    for key in ("format", "usage", "non_finite", "scale_layout"):
      f.get(key, str)
    o = pb.QuantizeOptions()
    _read(f, o)
    tensor = tensor_from_elsewhere(
      f.sizes("shape"), f.get("dtype", str), f.get("flatten_axis", int)
    )
    _read_own_forms(f, o)
    _parse_rht(_Fields(f.found.get("rht")), o)
    check_splits(tensor, o)
  except (ValueError, TypeError, OverflowError, Invalid, RecursionError):
    return None
  return tensor, o
