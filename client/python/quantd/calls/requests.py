"""Builds requests from sources and options, and parts from replies."""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from quantd import options
from quantd import quantd_pb2 as pb
from quantd.calls.asked import Asked
from quantd.errors import Invalid
from quantd.options import QuantizeKeywords
from quantd.tensors import arrays, device, geometry
from quantd.tensors.arrays import Source
from quantd.tensors.copies import Part
from quantd.tensors.device import DeviceBytes
from quantd.tensors.elements import Array
from quantd.tensors.tensor import QuantizedTensor
from quantd.values import shown, whole
from quantd.words import DTYPES, KINDS, USAGES, DType, Format


def tensor_message(
  dtype: Any, shape: Sequence[int], flatten_axis: int
) -> pb.Tensor:
  """Builds the description of a tensor, with checked numbers."""
  axis = whole("tensor.flatten_axis", flatten_axis, -(2**31), 2**31 - 1)
  try:
    sizes = list(shape)
  except TypeError:
    raise Invalid.of("tensor.shape", "a list of sizes", shown(shape)) from None
  sizes = [whole("tensor.shape", d, -(2**63), 2**63 - 1) for d in sizes]
  return pb.Tensor(dtype=dtype, shape=sizes, flatten_axis=axis)


def read_all(
  x: Any, fused: Sequence[Any], dtype: DType | None, on_device: bool
) -> list[Source]:
  """Reads a tensor and the arrays that are quantized together with it."""
  if not isinstance(fused, (list, tuple)):
    raise Invalid.of("fused", "a list of arrays", type(fused).__name__)
  if not fused:
    return [arrays.read(x, "tensor", dtype, on_device)]
  if on_device and any(map(device.is_on_device, (x, *fused))):
    raise Invalid.of(
      "fused",
      "arrays in host memory; on a GPU quantize each array on its own, with "
      "the largest amax of all as `given_amax`",
      "arrays on a GPU",
    )
  # Fused arrays are several buffers, which must be in host memory.
  sources = [arrays.read(x, "tensor", dtype)]
  known: Any = sources[0].dtype if dtype is not None else None
  sources += [arrays.read(y, f"fused[{i}]", known) for i, y in enumerate(fused)]
  return sources


def tensor_of(source: Source, flatten_axis: int) -> pb.Tensor:
  """Builds the description of a source."""
  return tensor_message(
    DTYPES.parse("dtype", source.dtype), source.shape, flatten_axis
  )


def stacked(sources: Sequence[Source], flatten_axis: int) -> pb.Tensor:
  """Builds the description of all sources stacked below each other."""
  first = sources[0]
  if len(sources) == 1:
    return tensor_of(first, flatten_axis)
  rows, cols = 0, geometry.sides(first.shape, flatten_axis)[1]
  for i, s in enumerate(sources):
    m, k = geometry.sides(s.shape, flatten_axis)
    if (k, s.dtype) != (cols, first.dtype):
      expected, got = f"{cols} columns of {first.dtype}", f"{k} of {s.dtype}"
      raise Invalid.of(f"fused[{i - 1}]", expected, got)
    rows += m
  return tensor_message(DTYPES.parse("dtype", first.dtype), (rows, cols), -1)


def asked(
  sources: Sequence[Source],
  flatten_axis: int,
  format: Format,
  keywords: QuantizeKeywords,
) -> Asked:
  """Returns the request of a Quantize call."""
  dtype, shape = sources[0].dtype, sources[0].shape
  if len(sources) == 1 and _is_plain(flatten_axis, format, keywords):
    # All values are hashable.
    values: Any = keywords
    return _remembered(dtype, shape, flatten_axis, format, **values)
  made = options.quantize_message(format, keywords)
  return Asked(stacked(sources, flatten_axis), made)


# Types for which equal values are interchangeable.
_PLAIN = (str, int, bool, type(None))


def _is_one_value(v: Any) -> bool:
  """Returns whether nothing else equals v. Both zeros equal each other."""
  return type(v) in _PLAIN or (type(v) is float and (v < 0 or v > 0))


def _is_plain(
  flatten_axis: int, format: Format, keywords: QuantizeKeywords
) -> bool:
  """Returns whether equal arguments always make equal requests."""
  values = (flatten_axis, format, *keywords.values())
  drawn = keywords.get("stochastic") is True
  return not drawn and all(map(_is_one_value, values))


@functools.lru_cache(maxsize=256, typed=True)
def _remembered(
  dtype: str,
  shape: tuple[int, ...],
  flatten_axis: int,
  format: Format,
  **keywords: Unpack[QuantizeKeywords],
) -> Asked:
  made = options.quantize_message(format, keywords)
  tensor = tensor_message(DTYPES.parse("dtype", dtype), shape, flatten_axis)
  return Asked(tensor, made)


def cut_apart(
  joined: QuantizedTensor, sources: Sequence[Source], flatten_axis: int
) -> QuantizedTensor:
  """Separates fused tensors. The first has the others as its `fused`."""
  made: list[QuantizedTensor] = []
  at = 0
  for source in sources:
    rows = geometry.sides(source.shape, flatten_axis)[0]
    try:
      part = joined.rows(at, at + rows)
    except Invalid as wrong:
      field = f"fused[{len(made) - 1}]" if made else "tensor"
      expected = f"{wrong.expected}, because the tensors are stacked"
      raise Invalid.of(field, expected, f"{rows} rows after {at}") from None
    made.append(part.replaced(shape=source.shape, flatten_axis=flatten_axis))
    at += rows
  return made[0].replaced(fused=tuple(made[1:]))


def part_of(spec: geometry.Spec, data: memoryview | DeviceBytes) -> Part:
  """Makes a part of a result from its bytes."""
  if isinstance(data, DeviceBytes):
    return Part(spec, np.empty(0, np.uint8), data)
  return Part(spec, np.frombuffer(data, np.uint8))


def places(
  near: DeviceBytes, into: dict[int, Any], sizes: Sequence[tuple[int, int]]
) -> dict[int, Any]:
  """Adds buffers on the GPU of `near` for parts that have none."""
  missing = [(kind, size) for kind, size in sizes if kind not in into]
  made = device.empty(near, [size for _, size in missing])
  into.update(zip((kind for kind, _ in missing), made, strict=True))
  return into


def buffers(
  out: Mapping[str, Any] | None, asked: Asked, on_device: bool
) -> dict[int, Any]:
  """Returns the caller's buffers by kind number."""
  if out is None:
    return {}
  if not isinstance(out, Mapping):
    raise Invalid.of("out", "buffers by kind", type(out).__name__)
  known = {spec.kind: spec for spec in asked.specs()}
  found = {}
  for kind, buffer in out.items():
    spec = known.get(kind)
    if spec is None:
      raise Invalid.of("out", " or ".join(known) or "legal options", repr(kind))
    number = KINDS.parse("out", kind)
    found[number] = arrays.writable(
      buffer, spec.dtype, spec.shape, f"out[{kind!r}]", on_device
    )
  # Addresses of different GPUs never overlap.
  ordered = sorted(
    (
      part.pointer
      if isinstance(part, DeviceBytes)
      else part.__array_interface__["data"][0],
      part.nbytes,
    )
    for part in found.values()
  )
  for (begin, size), (after, _) in itertools.pairwise(ordered):
    if begin + size > after:
      raise Invalid.of("out", "buffers that do not overlap", "an overlap")
  return found


def decoding(
  t: QuantizedTensor, side: str, output: Any, rotated: bool
) -> tuple[pb.DequantizeRequest, list[Array | DeviceBytes], tuple[int, ...]]:
  """Returns a request to decode a copy, its payload, and the output's shape."""
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
  """Adds a part to a request, at offset `at` of the payload."""
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
  """Returns the shape of the decoded tensor."""
  rows = sum(t.options.splits.rows) if t.groups else t.matrix[0]
  return t.shape if rows == t.matrix[0] else (rows, t.matrix[1])


def _rotated_shape(t: QuantizedTensor, side: str) -> tuple[int, int]:
  """Returns the shape of a copy decoded without undoing its rotation."""
  rows, cols = t.matrix
  f = geometry.format_of(t.options, t.dtype)
  if side == "rowwise":
    return sum(t.options.splits.rows) if t.groups else rows, cols
  unit = max(f.block, t.options.rht.dimension or 16)
  groups = list(t.options.splits.rows) if t.groups else [rows]
  return sum(geometry.up(m, unit) for m in groups), cols
