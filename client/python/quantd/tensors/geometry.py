"""The parts of a quantized tensor and their shapes, computed from its options.

Shapes are those of BYTES.md. Servers send the shapes of tensors that they make.
This module computes those of tensors from files or parts, of parts before a
call, and of cut tensors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quantd import quantd_pb2 as pb
from quantd.tensors.elements import size_of
from quantd.words import DTYPES, FORMATS, KINDS


@dataclass(frozen=True)
class Format:
  """The types of a format, and the elements that share a scale."""

  scaling: str  # "nvfp4", "tensor", "mx", "block" or "channel"
  element: str
  scale: str
  block: int  # positions that share a scale; 0 for the whole line
  square: bool = False
  transposed: bool = True  # whether columnwise data is [K, M]

  @property
  def half(self) -> bool:
    """Whether two codes share a byte."""
    return self.element == "e2m1x2"


FORMATS_BY_NAME = {
  "nvfp4": Format("nvfp4", "e2m1x2", "e4m3", 16),
  "nvfp4_2d": Format("nvfp4", "e2m1x2", "e4m3", 16, square=True),
  "mxfp4": Format("mx", "e2m1x2", "e8m0", 32),
  "fp8_channel_e4m3": Format("channel", "e4m3", "f32", 0),
}
for _element in ("e4m3", "e5m2"):
  FORMATS_BY_NAME[f"fp8_{_element}"] = Format("tensor", _element, "f32", 0)
  FORMATS_BY_NAME[f"mxfp8_{_element}"] = Format(
    "mx", _element, "e8m0", 32, transposed=False
  )
  FORMATS_BY_NAME[f"fp8_block_{_element}"] = Format(
    "block", _element, "f32", 128
  )
  FORMATS_BY_NAME[f"fp8_block_2d_{_element}"] = Format(
    "block", _element, "f32", 128, square=True
  )


def profile_stores_type(options: pb.QuantizeOptions) -> bool:
  """Returns whether the profile stores FP8 scales in the input's type."""
  return options.profile in (
    pb.PROFILE_COMPRESSED_TENSORS_0_20,
    pb.PROFILE_COMPRESSED_TENSORS_0_20_CUDA,
  )


def format_of(options: pb.QuantizeOptions, dtype: str) -> Format:
  """Returns the format of the options for an input of type `dtype`."""
  f = FORMATS_BY_NAME[FORMATS.word(options.format)]
  if f.scale == "f32" and profile_stores_type(options):
    return Format(f.scaling, f.element, dtype, f.block, f.square, f.transposed)
  return f


def up(a: int, b: int) -> int:
  """Rounds `a` up to a multiple of `b`.

  Example:
    >>> up(17, 16)
    32
  """
  return -(-a // b) * b


def sides(shape: Sequence[int], flatten_axis: int) -> tuple[int, int]:
  """Returns M and K of a tensor."""
  axis = flatten_axis % len(shape) if len(shape) > 1 else 0
  return math.prod(shape[:axis]), math.prod(shape[axis:])


@dataclass(frozen=True)
class CopyShape:
  """The shapes of one copy of one group."""

  lines: int
  positions: int
  padded: int
  blocks: int
  data: tuple[int, ...]  # in stored elements
  scale: tuple[int, ...]
  # The order of the scales of lines (l) and blocks (b): "lb" for
  # [lines, blocks], "bl", "square", "swizzled", or "" for a list.
  order: str


def copy_shape(
  f: Format, o: pb.QuantizeOptions, columnwise: bool, rows: int, cols: int
) -> CopyShape:
  """Returns the shapes of a copy of a matrix rows x cols."""
  lines, positions = (cols, rows) if columnwise else (rows, cols)
  rotated = o.HasField("rht") and (
    o.rht.columnwise if columnwise else o.rht.rowwise
  )
  dimension = (o.rht.dimension or 16) if rotated else 0
  padded = positions
  if f.half or dimension:
    padded = up(positions, max(f.block, dimension))
  blocks = up(padded, f.block) // f.block if f.block else 0
  data = (lines, padded // 2 if f.half else padded)
  if columnwise and not f.transposed:
    data = (padded, lines)
  wide = up(blocks, 4)
  scale: tuple[int, ...]
  if f.scaling == "tensor":
    scale, order = (1,), ""
  elif f.scaling == "channel":
    scale, order = (lines,), ""
  elif f.scaling == "block" and f.square:
    scale, order = (-(-lines // f.block), wide), "square"
  elif f.scaling == "block":
    scale, order = (blocks, up(lines, 4)), "bl"
  elif o.form.compact_scales:
    scale, order = (-(-lines // f.block), blocks), "square"
  elif o.form.scale_layout == pb.LAYOUT_SWIZZLED:
    scale, order = (up(lines, 128), wide), "swizzled"
  elif columnwise and not f.transposed:
    scale, order = (wide, up(lines, 128)), "bl"
  else:
    scale, order = (up(lines, 128), wide), "lb"
  return CopyShape(lines, positions, padded, blocks, data, scale, order)


class Spec(NamedTuple):
  """The description of a part."""

  kind: str
  dtype: str
  shape: tuple[int, ...]
  layout: int = pb.LAYOUT_LINEAR
  group_offsets: tuple[int, ...] = ()

  @property
  def size(self) -> int:
    """The size in bytes."""
    return math.prod(self.shape) * size_of(self.dtype)


def groups_of(tensor: pb.Tensor, options: pb.QuantizeOptions) -> list[int]:
  """Returns the rows of each group; all rows if there are no groups."""
  if options.HasField("splits"):
    return list(options.splits.rows)
  return [sides(tensor.shape, axis_of(tensor))[0]]


def axis_of(tensor: pb.Tensor) -> int:
  """Returns the flatten axis; -1 if it is not given."""
  return tensor.flatten_axis if tensor.HasField("flatten_axis") else -1


def global_kind(options: pb.QuantizeOptions) -> str | None:
  """Returns the kind of part that stores a profile's NVFP4 global scale."""
  if options.profile == pb.PROFILE_TE or options.format != pb.FORMAT_NVFP4:
    return None
  if profile_stores_type(options):
    return "rowwise_global_divisor"
  return "rowwise_global_scale"


def amax_of_lines(f: Format, options: pb.QuantizeOptions) -> bool:
  """Returns whether there is an amax for each line."""
  return f.scaling == "channel" or options.form.row_scaled


def specs(tensor: pb.Tensor, options: pb.QuantizeOptions) -> list[Spec]:
  """Returns all parts that Quantize returns for these arguments, in order."""
  dtype = DTYPES.word(tensor.dtype)
  f = format_of(options, dtype)
  groups = groups_of(tensor, options)
  cols = sides(tensor.shape, axis_of(tensor))[1]
  grouped = options.HasField("splits")
  found: list[Spec] = []

  def add(
    kind: str,
    dtype: str,
    each: list[tuple[int, ...]],
    whole: tuple[int, ...] | None = None,
    layout: int = pb.LAYOUT_LINEAR,
  ) -> None:
    if not grouped:
      found.append(Spec(kind, dtype, each[0], layout))
      return
    offsets = [0]
    for shape in each:
      offsets.append(offsets[-1] + math.prod(shape) * size_of(dtype))
    shape = (offsets[-1] // size_of(dtype),) if whole is None else whole
    found.append(Spec(kind, dtype, shape, layout, tuple(offsets)))

  for columnwise, name, bit in (
    (False, "rowwise", pb.USAGE_ROWWISE),
    (True, "columnwise", pb.USAGE_COLUMNWISE),
  ):
    # USAGE_NONE is 4, which has neither bit set.
    if not options.usage & bit:
      continue
    copies = [copy_shape(f, options, columnwise, rows, cols) for rows in groups]
    whole = None if columnwise else (sum(groups), copies[0].data[1])
    add(f"{name}_data", f.element, [c.data for c in copies], whole)
    swizzled = copies[0].order == "swizzled"
    layout = pb.LAYOUT_SWIZZLED if swizzled else pb.LAYOUT_LINEAR
    add(f"{name}_scale", f.scale, [c.scale for c in copies], None, layout)
    if f.scaling in ("nvfp4", "tensor", "channel"):
      lines = amax_of_lines(f, options)
      add(f"{name}_amax", "f32", [(c.lines if lines else 1,) for c in copies])
  count = len(groups)
  if options.amax:
    add("amax", "f32", [(1,)] * count)
  if options.dbias:
    out = options.dbias_dtype
    add(
      "dbias",
      DTYPES.word(out) if out else dtype,
      [(cols,)] * count,
      (count, cols),
    )
  if options.HasField("history"):
    values = len(options.history.amax) // count
    add("amax_history", "f32", [(values,)] * count, (count, values))
    add("next_scale", "f32", [(1,)] * count)
  kind = global_kind(options)
  if kind is not None and options.usage & pb.USAGE_ROWWISE:
    add(kind, "f32", [(1,)] * count)
  order = list(KINDS)
  return sorted(found, key=lambda s: order.index(s.kind))
