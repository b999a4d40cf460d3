"""Derives tensors from a QuantizedTensor without quantizing again.

Changes shapes, and takes rows or single groups. Codes are shared if they are
contiguous.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from quantd import quantd_pb2 as pb
from quantd.errors import Invalid
from quantd.tensors import geometry
from quantd.tensors.copies import Part
from quantd.tensors.described import Described
from quantd.tensors.elements import Array, size_of
from quantd.tensors.geometry import CopyShape, Spec
from quantd.values import is_list, whole
from quantd.words import DTYPES

T = TypeVar("T", bound=Described)


def _like(
  t: T,
  tensor: pb.Tensor,
  made: pb.QuantizeOptions,
  parts: Mapping[str, Part],
) -> T:
  return type(t)(
    tensor,
    made.SerializeToString(),
    parts,
    connection=t.connection,
    library=t.library,
  )


def _message(t: Described, shape: Sequence[int], axis: int) -> pb.Tensor:
  return pb.Tensor(
    dtype=DTYPES.parse("dtype", t.dtype), shape=shape, flatten_axis=axis
  )


def _copied(o: pb.QuantizeOptions) -> pb.QuantizeOptions:
  """Copies options for a part of a tensor, without given amaxes."""
  made = pb.QuantizeOptions()
  made.CopyFrom(o)
  made.ClearField("given_amax")
  return made


# --- shapes -----------------------------------------------------------------


def reshape(t: T, shape: Sequence[Any]) -> T:
  """See `QuantizedTensor.reshape`. Also accepts one sequence."""
  if len(shape) == 1 and is_list(shape[0]):
    shape = shape[0]
  rows = t.matrix[0]
  rank = len(t.shape)
  axis = t.flatten_axis % rank if rank > 1 else 0
  tail = t.shape[axis:]
  sizes = [whole("shape", d, -1, 2**63 - 1) for d in shape]
  head = sizes[: len(sizes) - len(tail)]
  if head.count(-1) == 1 and rows:
    rest = -math.prod(head)
    head[head.index(-1)] = rows // rest if rest else 0
  made = (*head, *tail)
  legal = tuple(sizes[len(head) :]) == tail and (len(made) > 1 or rank == 1)
  if not legal or min(head, default=0) < 0 or math.prod(head) != rows:
    expected = f"{rows} rows before {list(tail)}"
    raise Invalid.of("shape", expected, str(list(sizes)))
  return t.replaced(shape=made, flatten_axis=-len(tail))


# --- scales as a matrix of lines x blocks -------------------------------------


def _swizzled_index(lines: int, blocks: int) -> Array:
  line = np.arange(lines)[:, None]
  block = np.arange(blocks)[None, :]
  tiles = -(-blocks // 4)
  inside = line % 32 * 16 + line % 128 // 32 * 4 + block % 4
  index: Array = (line // 128 * tiles + block // 4) * 512 + inside
  return index


def scale_matrix(c: CopyShape, data: Array, dtype: str, lines: int) -> Array:
  """Returns a group's scales as unsigned integers [lines, blocks]."""
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
  """Returns the number of lines of scales with padding."""
  return c.scale[1] if c.order == "bl" else c.scale[0]


def _scale_lines(
  c: CopyShape, f: geometry.Format, o: pb.QuantizeOptions
) -> int:
  squares = f.square and (f.scaling == "block" or o.form.compact_scales)
  return -(-c.lines // f.block) if squares else c.lines


def _place(c: CopyShape, matrix: Array) -> Array:
  """Returns scales [lines, blocks] as bytes in a copy's padded order."""
  lines, blocks = matrix.shape
  if c.order == "swizzled":
    flat = np.zeros(int(np.prod(c.scale)), matrix.dtype)
    flat[_swizzled_index(lines, c.blocks)[:, :blocks]] = matrix
    return flat.view(np.uint8)
  out = np.zeros(c.scale, matrix.dtype)
  (out.T if c.order == "bl" else out)[:lines, :blocks] = matrix
  return out.reshape(-1).view(np.uint8)


# --- groups and rows ----------------------------------------------------------


def group(t: T, i: int) -> T:
  """See `QuantizedTensor.group`."""
  i = whole("group", i, -(2**63), 2**63 - 1)
  if not 0 <= i < t.groups:
    raise IndexError(f"no group {i}: the tensor has {t.groups} groups")
  rows = list(t.options.splits.rows)
  made = _copied(t.options)
  made.ClearField("splits")
  if len(made.scale) > 1:
    made.scale[:] = [t.options.scale[i]]
  if made.HasField("history"):
    values = len(t.options.history.amax) // t.groups
    made.history.amax[:] = t.options.history.amax[i * values : (i + 1) * values]
  if made.rounding == pb.ROUNDING_STOCHASTIC:
    # Random bits depend on the rows' positions in the payload.
    made.shard.row_offset += sum(rows[:i])
  tensor = _message(t, (rows[i], t.matrix[1]), -1)
  parts = {}
  all_groups = {s.kind: s for s in geometry.specs(t.message(), t.options)}
  for spec in geometry.specs(tensor, made):
    offsets = all_groups[spec.kind].group_offsets
    parts[spec.kind] = Part(
      spec, t.parts[spec.kind].data[offsets[i] : offsets[i + 1]]
    )
  return _like(t, tensor, made, parts)


def cut_unit(o: pb.QuantizeOptions, f: geometry.Format) -> int:
  """Returns the unit at whose multiples rows may be cut."""
  unit = f.block if f.square else 1
  if o.usage & pb.USAGE_COLUMNWISE:
    dimension = (o.rht.dimension or 16) if o.rht.columnwise else 0
    unit = max(1, f.block, dimension)
  return unit


def cut_rows(t: T, start: int, stop: int) -> T:
  """See `QuantizedTensor.rows`."""
  rows, cols = t.matrix
  f = geometry.format_of(t.options, t.dtype)
  if t.groups:
    raise Invalid.of("splits", "no groups: use the rows of a group", "groups")
  start = whole("rows", start, -(2**63), 2**63 - 1)
  stop = whole("rows", stop, -(2**63), 2**63 - 1)
  got = f"{start} to {stop}"
  if not 0 <= start <= stop <= rows:
    raise Invalid.of("rows", f"a range inside 0 to {rows}", got)
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
    uncut = geometry.copy_shape(f, t.options, columnwise, rows, cols)
    part = geometry.copy_shape(f, made, columnwise, stop - start, cols)
    parts[spec.kind] = Part(
      spec, _rows_of(t, spec, data, uncut, part, f, start)
    )
  return _like(t, tensor, made, parts)


def _rows_of(
  t: Described,
  spec: Spec,
  data: Array,
  uncut: CopyShape,
  part: CopyShape,
  f: geometry.Format,
  start: int,
) -> Array:
  columnwise = spec.kind.startswith("columnwise")
  if spec.kind.endswith("_data"):
    if columnwise and f.transposed:
      first = start // 2 if f.half else start
      codes = data.reshape(uncut.data)[:, first : first + part.data[1]]
      return np.ascontiguousarray(codes).reshape(-1)
    first = start * uncut.data[1]
    return data[first : first + spec.size]
  if spec.kind.endswith("wise_scale") and f.scaling == "channel":
    first = 0 if columnwise else start * size_of(spec.dtype)
    return data[first : first + spec.size]
  if spec.kind.endswith("wise_scale") and f.scaling != "tensor":
    lines = _scale_lines(uncut, f, t.options)
    matrix = scale_matrix(uncut, data, spec.dtype, lines)
    if columnwise:
      matrix = matrix[:, start // f.block :][:, : part.blocks]
    else:
      squares = lines != uncut.lines or (
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
