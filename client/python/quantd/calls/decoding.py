"""Requests to decode, and the shape of what comes back."""

from typing import Any

from quantd import options
from quantd import quantd_pb2 as pb
from quantd.tensors import geometry
from quantd.tensors.copies import Part
from quantd.tensors.device import DeviceBytes
from quantd.tensors.elements import Array
from quantd.tensors.tensor import QuantizedTensor
from quantd.words import DTYPES, KINDS, USAGES


def request_for(
  t: QuantizedTensor, side: str, output: Any, rotated: bool
) -> tuple[pb.DequantizeRequest, list[Array | DeviceBytes], tuple[int, ...]]:
  """The request for a copy that is there, its payload, the shape it gives."""
  decode = options.dequantize_message(
    t.options, USAGES.parse("usage", side), output
  )
  shape = _decoded_shape(t)
  if rotated and decode.HasField("inverse_rht"):
    decode.rotated_dimension = decode.inverse_rht.dimension or 16
    decode.ClearField("inverse_rht")
    shape = _rotated_shape(t, side)
  request = pb.DequantizeRequest(tensor=t.message(), options=decode)
  kinds = [f"{side}_data", f"{side}_scale"]
  if t.options.format in (pb.FORMAT_NVFP4, pb.FORMAT_NVFP4_2D):
    kinds.append(geometry.global_kind(t.options) or f"{side}_amax")
  payload = [t.parts[kind] for kind in kinds]
  at = 0
  for part in payload:
    _add_ref(request, part, at)
    at += part.spec.size
  return request, [part.payload for part in payload], shape


def _add_ref(request: pb.DequantizeRequest, part: Part, at: int) -> None:
  """Says in a request where a part lies in its payload."""
  spec = part.spec
  request.tensors.add(
    kind=KINDS.parse("kind", spec.kind),
    dtype=DTYPES.parse("dtype", spec.dtype),
    layout=spec.layout,
    shape=spec.shape,
    offset=at,
    size=spec.size,
    group_offsets=spec.group_offsets,
  )


def _decoded_shape(t: QuantizedTensor) -> tuple[int, ...]:
  """The shape of what decoding gives."""
  rows = sum(t.options.splits.rows) if t.groups else t.matrix[0]
  return t.shape if rows == t.matrix[0] else (rows, t.matrix[1])


def _rotated_shape(t: QuantizedTensor, side: str) -> tuple[int, int]:
  """The same where it stays rotated, with its padding."""
  rows, cols = t.matrix
  f = geometry.format_of(t.options, t.dtype)
  if side == "rowwise":
    return sum(t.options.splits.rows) if t.groups else rows, cols
  unit = max(f.block, t.options.rht.dimension or 16)
  groups = list(t.options.splits.rows) if t.groups else [rows]
  return sum(geometry.up(m, unit) for m in groups), cols
