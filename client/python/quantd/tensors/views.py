"""What can be made of a QuantizedTensor without quantizing again.

Other shapes, rows, single groups, other scale layouts, and the tensor of parts
that were made elsewhere. Codes are shared where they lie together.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quantd import options
from quantd import quantd_pb2 as pb
from quantd.errors import Invalid
from quantd.tensors import arrays, geometry
from quantd.tensors.arrays import Array, size_of
from quantd.tensors.copies import Part
from quantd.tensors.geometry import CopyShape, Spec
from quantd.tensors.tensor import QuantizedTensor
from quantd.words import DTYPES, LAYOUTS

if TYPE_CHECKING:
  from quantd.calls.connection import Connection


def _like(
  t: QuantizedTensor,
  tensor: pb.Tensor,
  made: pb.QuantizeOptions,
  parts: Mapping[str, Part],
) -> QuantizedTensor:
  return QuantizedTensor(
    tensor, made, parts, connection=t.connection, library=t.library
  )


def _message(t: QuantizedTensor, shape: Sequence[int], axis: int) -> pb.Tensor:
  return pb.Tensor(
    dtype=DTYPES.parse("dtype", t.dtype), shape=shape, flatten_axis=axis
  )


def _copied(o: pb.QuantizeOptions) -> pb.QuantizeOptions:
  """The options of a part of a tensor: what was given is in the copies."""
  made = pb.QuantizeOptions()
  made.CopyFrom(o)
  made.ClearField("given_amax")
  return made


# --- shapes -----------------------------------------------------------------


def reshape(t: QuantizedTensor, shape: Sequence[Any]) -> QuantizedTensor:
  """See `QuantizedTensor.reshape`; takes one sequence, too."""
  if len(shape) == 1 and not hasattr(shape[0], "__index__"):
    shape = shape[0]
  rows = t.matrix[0]
  rank = len(t.shape)
  axis = t.flatten_axis % rank if rank > 1 else 0
  tail = t.shape[axis:]
  sizes = [options.whole("shape", d, -1, 2**63 - 1) for d in shape]
  head = sizes[: len(sizes) - len(tail)]
  if head.count(-1) == 1 and rows:
    rest = -int(np.prod(head))
    head[head.index(-1)] = rows // rest if rest else 0
  whole = (*head, *tail)
  legal = tuple(sizes[len(head) :]) == tail and (len(whole) > 1 or rank == 1)
  if not legal or min(head, default=0) < 0 or int(np.prod(head)) != rows:
    expected = f"{rows} rows before {list(tail)}"
    raise Invalid.of("shape", expected, str(list(sizes)))
  made = _like(t, _message(t, whole, -len(tail)), t.options, t.parts)
  return made.replaced(report=t.report, request_id=t.request_id)


# --- scales as a matrix of lines x blocks -------------------------------------


def _swizzled_index(lines: int, blocks: int) -> Array:
  line = np.arange(lines)[:, None]
  block = np.arange(blocks)[None, :]
  tiles = -(-blocks // 4)
  inside = line % 32 * 16 + line % 128 // 32 * 4 + block % 4
  index: Array = (line // 128 * tiles + block // 4) * 512 + inside
  return index


def scale_matrix(c: CopyShape, data: Array, dtype: str, lines: int) -> Array:
  """The scales of one group as [lines, blocks], without their padding.

  Args:
    c: Its shape.
    data: The bytes of its scales.
    dtype: Their type.
    lines: How many lines of scales there are: of squares, one for a square.

  Returns:
    The stored elements, as unsigned integers of their size.
  """
  raw = data.view(f"<u{size_of(dtype)}")
  blocks = c.blocks if c.lines and c.positions else 0
  if c.order == "swizzled":
    index = _swizzled_index(up_lines(c), -(-c.blocks // 4) * 4)
    matrix: Array = raw[index]
  else:
    matrix = raw.reshape(c.scale)
    if c.order == "bl":
      matrix = matrix.T
  return matrix[:lines, :blocks]


def up_lines(c: CopyShape) -> int:
  """Lines of scales with their padding."""
  return c.scale[1] if c.order == "bl" else c.scale[0]


def _scale_lines(
  c: CopyShape, f: geometry.Format, o: pb.QuantizeOptions
) -> int:
  squares = f.square and (f.scaling == "block" or o.form.compact_scales)
  return -(-c.lines // f.block) if squares else c.lines


def _place(c: CopyShape, matrix: Array) -> Array:
  """Scales [lines, blocks] with the padding and order of a copy, as bytes."""
  lines, blocks = matrix.shape
  if c.order == "swizzled":
    flat = np.zeros(int(np.prod(c.scale)), matrix.dtype)
    flat[_swizzled_index(lines, c.blocks)[:, :blocks]] = matrix
    return flat.view(np.uint8)
  out = np.zeros(c.scale, matrix.dtype)
  (out.T if c.order == "bl" else out)[:lines, :blocks] = matrix
  return out.reshape(-1).view(np.uint8)


def with_scale_layout(t: QuantizedTensor, layout: str) -> QuantizedTensor:
  """See `QuantizedTensor.with_scale_layout`."""
  number = LAYOUTS.parse("layout", layout)
  f = geometry.format_of(t.options, t.dtype)
  swizzled = number == pb.LAYOUT_SWIZZLED
  if swizzled and (
    f.scaling not in ("nvfp4", "mx") or t.options.form.compact_scales
  ):
    raise Invalid.of("form.scale_layout", f"linear with {t.format}", layout)
  if swizzled == (t.options.form.scale_layout == pb.LAYOUT_SWIZZLED):
    return t
  made = pb.QuantizeOptions()
  made.CopyFrom(t.options)
  made.form.scale_layout = number
  parts = dict(t.parts)
  groups = geometry.groups_of(t.message(), t.options)
  for spec in geometry.specs(t.message(), made):
    if not spec.kind.endswith("wise_scale") or spec.kind not in parts:
      continue
    columnwise = spec.kind.startswith("columnwise")
    old = parts[spec.kind]
    at, pieces = 0, []
    for rows in groups:
      before = geometry.copy_shape(f, t.options, columnwise, rows, t.matrix[1])
      after = geometry.copy_shape(f, made, columnwise, rows, t.matrix[1])
      size = int(np.prod(before.scale)) * size_of(spec.dtype)
      lines = _scale_lines(before, f, t.options)
      data = old.data[at : at + size]
      pieces.append(
        _place(after, scale_matrix(before, data, spec.dtype, lines))
      )
      at += size
    parts[spec.kind] = Part(spec, np.concatenate(pieces))
  out = _like(t, t.message(), made, parts)
  return out.replaced(report=t.report, request_id=t.request_id)


# --- groups and rows ----------------------------------------------------------


def group(t: QuantizedTensor, i: int) -> QuantizedTensor:
  """See `QuantizedTensor.group`."""
  if not 0 <= i < t.groups:
    raise IndexError(f"group {i} of {t.groups}")
  rows = list(t.options.splits.rows)
  made = _copied(t.options)
  made.ClearField("splits")
  if len(made.scale) > 1:
    made.scale[:] = [t.options.scale[i]]
  if made.HasField("history"):
    values = len(t.options.history.amax) // t.groups
    made.history.amax[:] = t.options.history.amax[i * values : (i + 1) * values]
  if made.rounding == pb.ROUNDING_STOCHASTIC:
    # Random bits were those of the rows' places in the payload.
    made.shard.row_offset += sum(rows[:i])
  tensor = _message(t, (rows[i], t.matrix[1]), -1)
  parts = {}
  whole = {s.kind: s for s in geometry.specs(t.message(), t.options)}
  for spec in geometry.specs(tensor, made):
    offsets = whole[spec.kind].group_offsets
    parts[spec.kind] = Part(
      spec, t.parts[spec.kind].data[offsets[i] : offsets[i + 1]]
    )
  return _like(t, tensor, made, parts)


def cut_unit(o: pb.QuantizeOptions, f: geometry.Format) -> int:
  """Rows may be cut at multiples of this, and at the end."""
  unit = f.block if f.square else 1
  if o.usage & pb.USAGE_COLUMNWISE:
    dimension = (o.rht.dimension or 16) if o.rht.columnwise else 0
    unit = max(1, f.block, dimension)
  return unit


def cut_rows(t: QuantizedTensor, start: int, stop: int) -> QuantizedTensor:
  """See `QuantizedTensor.rows`."""
  rows, cols = t.matrix
  f = geometry.format_of(t.options, t.dtype)
  if t.groups:
    raise Invalid.of("splits", "none: slice a group", "groups")
  start = options.whole("rows", start, -(2**63), 2**63 - 1)
  stop = options.whole("rows", stop, -(2**63), 2**63 - 1)
  got = f"{start} to {stop}"
  if not 0 <= start <= stop <= rows:
    raise Invalid.of("rows", f"inside 0 to {rows}", got)
  unit = cut_unit(t.options, f)
  if any(cut % unit and cut != rows for cut in (start, stop)):
    raise Invalid.of("rows", f"cuts at multiples of {unit}", got)
  made = _copied(t.options)
  made.ClearField("history")
  made.amax = made.dbias = made.statistics = False
  made.dbias_dtype = pb.DTYPE_UNSPECIFIED
  if made.rounding == pb.ROUNDING_STOCHASTIC:
    made.shard.row_offset += start
  tensor = _message(t, (stop - start, cols), -1)
  parts = {}
  for spec in geometry.specs(tensor, made):
    data = t.parts[spec.kind].data
    columnwise = spec.kind.startswith("columnwise")
    whole = geometry.copy_shape(f, t.options, columnwise, rows, cols)
    part = geometry.copy_shape(f, made, columnwise, stop - start, cols)
    parts[spec.kind] = Part(
      spec, _rows_of(t, spec, data, whole, part, f, start)
    )
  return _like(t, tensor, made, parts)


def _rows_of(
  t: QuantizedTensor,
  spec: Spec,
  data: Array,
  whole: CopyShape,
  part: CopyShape,
  f: geometry.Format,
  start: int,
) -> Array:
  columnwise = spec.kind.startswith("columnwise")
  if spec.kind.endswith("_data"):
    if columnwise and f.transposed:
      first = start // 2 if f.half else start
      codes = data.reshape(whole.data)[:, first : first + part.data[1]]
      return np.ascontiguousarray(codes).reshape(-1)
    first = start * whole.data[1]
    return data[first : first + spec.size]
  if spec.kind.endswith("wise_scale") and f.scaling == "channel":
    first = 0 if columnwise else start * size_of(spec.dtype)
    return data[first : first + spec.size]
  if spec.kind.endswith("wise_scale") and f.scaling != "tensor":
    lines = _scale_lines(whole, f, t.options)
    matrix = scale_matrix(whole, data, spec.dtype, lines)
    if columnwise:
      matrix = matrix[:, start // f.block :][:, : part.blocks]
    else:
      squares = lines != whole.lines or (
        f.square and t.options.form.compact_scales
      )
      each = f.block if squares else 1
      matrix = matrix[start // each :][: _scale_lines(part, f, t.options)]
    if not (part.lines and part.positions):
      matrix = matrix[:, :0]
    return _place(part, matrix)
  if spec.kind == "rowwise_amax" and geometry.amax_of_lines(f, t.options):
    return data[start * 4 : start * 4 + spec.size]
  return data


# --- parts from elsewhere -----------------------------------------------------


def from_parts(
  kind: type[QuantizedTensor],
  tensor: pb.Tensor,
  format: str,
  parts: Mapping[str, Any],
  connection: "Connection | None",
  keywords: Mapping[str, Any],
) -> QuantizedTensor:
  """See `QuantizedTensor.from_parts`."""
  made = options.quantize_message(format, keywords)  # type: ignore[arg-type]
  want = {spec.kind: spec for spec in geometry.specs(tensor, made)}
  if not isinstance(parts, Mapping):
    raise Invalid.of("parts", " and ".join(want), repr(parts)[:80])
  found = {}
  for name, value in parts.items():
    if name not in want:
      expected = " or ".join(want)
      raise Invalid.of(
        "parts", f"a part that these options give: {expected}", name
      )
    spec = want[name]
    data = _bytes_of(value, f"parts[{name!r}]", spec)
    check_part(f"parts[{name!r}]", spec, data, made)
    found[name] = Part(spec, data)
  for name in want:
    if name not in found:
      raise Invalid.of("parts", f"a {name}", "none")
  ordered = {name: found[name] for name in want}
  return kind(tensor, made, ordered, connection=connection)


def _bytes_of(value: Any, field: str, spec: Spec) -> Array:
  if arrays.library_of(value) == "torch":
    value = value.detach().cpu().contiguous().view(-1)
    import torch

    data: Array = value.view(torch.uint8).numpy()
  elif isinstance(value, (bytes, bytearray, memoryview)):
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
  """Refuses amaxes below 0 and scales of a tensor that are not above it."""
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
  """NaN comes out of quantizing one, and is as good as any number > 0."""
  return np.where(np.isnan(values), np.float32(1), values)


# --- pickles ------------------------------------------------------------------


def restore(
  state: tuple[bytes, bytes, bytes],
  parts: dict[str, tuple[Spec, bytes]],
  rest: tuple[str, Any, str, tuple[QuantizedTensor, ...]],
) -> QuantizedTensor:
  """What a pickled tensor becomes elsewhere."""
  request_id, connection, library, fused = rest
  made = QuantizedTensor(
    pb.Tensor.FromString(state[0]),
    pb.QuantizeOptions.FromString(state[1]),
    {
      k: Part(spec, np.frombuffer(data, np.uint8))
      for k, (spec, data) in parts.items()
    },
    report=pb.Report.FromString(state[2]),
    request_id=request_id,
    connection=connection,
    library=library,
  )
  return made.replaced(fused=fused)
