"""Makes tensors from parts of another library."""

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from quantd import options
from quantd import quantd_pb2 as pb
from quantd.errors import Invalid
from quantd.options import QuantizeKeywords
from quantd.tensors import arrays, geometry
from quantd.tensors.copies import Part
from quantd.tensors.described import Decoder, Described
from quantd.tensors.elements import Array, library_of, size_of
from quantd.tensors.geometry import Spec
from quantd.values import is_list, shown, whole
from quantd.words import DTYPES, FLOATS, Format

T = TypeVar("T", bound=Described)


def tensor_from_elsewhere(shape: Any, dtype: Any, axis: Any) -> pb.Tensor:
  """Builds a tensor description and checks it without a server."""
  if not is_list(shape) or not 1 <= len(shape) <= 8:
    raise Invalid.of("shape", "1 to 8 sizes", shown(shape))
  rank = len(shape)
  low, high = (1 - rank, rank - 1) if rank > 1 else (-1, -1)
  axis = whole("flatten_axis", axis, low, high)
  if axis == 0:
    raise Invalid.of("flatten_axis", "dimensions on both sides", "0")
  sizes = [whole("shape", d, 0, 2**48) for d in shape]
  if math.prod(sizes) > 2**48:
    raise Invalid.of("shape", "at most 2^48 elements", str(sizes))
  return pb.Tensor(
    dtype=DTYPES.parse("dtype", dtype, FLOATS), shape=sizes, flatten_axis=axis
  )


def check_splits(tensor: pb.Tensor, made: pb.QuantizeOptions) -> None:
  """Checks that there are groups and that they fit into the rows."""
  if not made.HasField("splits"):
    return
  rows = geometry.sides(tensor.shape, tensor.flatten_axis)[0]
  groups = made.splits.rows
  total = sum(groups)
  ends = total == rows or (made.splits.partial and total < rows)
  if not groups or min(groups) < 0 or not ends:
    raise Invalid.of(
      "splits", f"groups that have {rows} rows together", str(list(groups))
    )


def from_parts(
  kind: type[T],
  tensor: pb.Tensor,
  format: Format,
  parts: Mapping[str, Any],
  connection: Decoder | None,
  keywords: QuantizeKeywords,
) -> T:
  """See `QuantizedTensor.from_parts`."""
  made = options.quantize_message(format, keywords)
  check_splits(tensor, made)
  want = {spec.kind: spec for spec in geometry.specs(tensor, made)}
  if not isinstance(parts, Mapping):
    raise Invalid.of("parts", " and ".join(want), shown(parts))
  found = {}
  for name, value in parts.items():
    if name not in want:
      expected = " or ".join(want)
      raise Invalid.of(
        "parts", f"a part that these options make: {expected}", shown(name)
      )
    spec = want[name]
    data = _bytes_of(value, f"parts[{name!r}]", spec)
    check_part(f"parts[{name!r}]", spec, data, made)
    found[name] = Part(spec, data)
  for name in want:
    if name not in found:
      raise Invalid.of("parts", f"a {name}", "none")
  ordered = {name: found[name] for name in want}
  return kind(tensor, made.SerializeToString(), ordered, connection=connection)


def _bytes_of(value: Any, field: str, spec: Spec) -> Array:
  arrays.refuse_mask(value, field)
  if library_of(value) == "torch":
    value = value.detach().cpu().contiguous().view(-1)
    import torch

    data: Array = value.view(torch.uint8).numpy()
  elif isinstance(value, (bytes, bytearray, memoryview)):
    if isinstance(value, memoryview) and not value.contiguous:
      raise Invalid.of(field, "contiguous memory", "strided memory")
    data = np.frombuffer(value, np.uint8)
  else:
    a = np.asarray(value)
    if a.dtype.hasobject or a.dtype.itemsize not in (1, size_of(spec.dtype)):
      raise Invalid.of(field, f"elements of {spec.dtype}", str(a.dtype))
    if a.ndim > 0 and a.itemsize > 1 and a.shape != spec.shape:
      raise Invalid.of(
        f"{field}.shape", str(list(spec.shape)), str(list(a.shape))
      )
    data = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
  if data.size != spec.size:
    raise Invalid.of(field, f"{spec.size} bytes", f"{data.size} bytes")
  return data


def check_part(
  field: str, spec: Spec, data: Array, o: pb.QuantizeOptions
) -> None:
  """Refuses amaxes < 0, and scales <= 0 if they are global or per tensor."""
  amax = spec.kind.endswith("amax")
  tensor = o.format in (pb.FORMAT_FP8_E4M3, pb.FORMAT_FP8_E5M2)
  scale = "global" in spec.kind or (tensor and spec.kind.endswith("scale"))
  if spec.dtype != "f32" or not (amax or scale):
    return
  values = replace_nan(data.view("<f4") if data.size else data.astype("<f4"))
  bad = values[values <= 0] if scale else values[values < 0]
  if bad.size:
    raise Invalid.of(
      field, "scales > 0" if scale else "amaxes >= 0", repr(bad[0])
    )


def replace_nan(values: Array) -> Array:
  """Replaces NaN, which is legal if the input had one, by 1."""
  return np.where(np.isnan(values), np.float32(1), values)
