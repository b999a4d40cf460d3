"""Where the tensors of a band lie in those of the whole."""

from dataclasses import dataclass

import numpy as np

from quantd import quantd_pb2 as pb
from quantd.tensors import geometry
from quantd.tensors.arrays import Array, size_of
from quantd.tensors.geometry import CopyShape, Format, Spec

Slices = tuple[slice, ...]

_ALL = slice(None)
# Elements of a tile of swizzled scales, and its columns.
_TILE, _TILE_COLUMNS = 512, 4


@dataclass(frozen=True)
class Slab:
  """A block of bytes: of the whole's tensor, and of the band's."""

  whole_shape: tuple[int, ...]
  whole_at: Slices
  band_shape: tuple[int, ...]
  band_at: Slices

  @property
  def together(self) -> bool:
    """Whether the band's tensor is one stretch of the whole's."""
    full = all(s == _ALL for s in self.whole_at[1:])
    return full and all(s == _ALL for s in self.band_at)

  def in_whole(self, whole: memoryview) -> Array:
    """That block of the whole's bytes."""
    return _bytes(whole).reshape(self.whole_shape)[self.whole_at]

  def put(self, band: memoryview, whole: memoryview) -> None:
    """A band's bytes to the whole's."""
    self.in_whole(whole)[:] = _bytes(band).reshape(self.band_shape)[
      self.band_at
    ]

  def taken_from(self, whole: memoryview) -> memoryview:
    """A band's bytes from the whole's: these themselves, or a copy."""
    found = self.in_whole(whole)
    if not self.together:
      copy = np.zeros(self.band_shape, np.uint8)
      copy[self.band_at] = found
      found = copy
    return found.reshape(-1).data


def _bytes(buffer: memoryview) -> Array:
  return np.frombuffer(buffer, np.uint8)


def part_of(kind: str, o: pb.QuantizeOptions | None, dtype: str) -> str:
  """What a tensor of a band is to that of the whole.

  Args:
    kind: Its word.
    o: How a copy is or was made; None where the call has none.
    dtype: Of the tensor.

  Returns:
    "slab": it lies there, and nothing of another band does. "same": every band
    has the bytes of the whole. "maxima": fp32, and the whole has the largest of
    each.
  """
  if kind in ("input", "dequantized", "rotated") or kind.endswith("_data"):
    return "slab"
  if kind.endswith("_scale") and not kind.endswith("_global_scale"):
    assert o is not None
    f = geometry.format_of(o, dtype)
    columnwise = kind.startswith("columnwise")
    one = f.scaling == "tensor" or (f.scaling == "channel" and columnwise)
    return "same" if one else "slab"
  return "maxima"


def amax_part_of(kind: str, o: pb.QuantizeOptions, dtype: str) -> str:
  """The same of what goes into a Dequantize, of which amaxes are a part."""
  part = part_of(kind, o, dtype)
  if part != "maxima":
    return part
  f = geometry.format_of(o, dtype)
  lines = geometry.amax_of_lines(f, o) and kind == "rowwise_amax"
  return "slab" if lines else "same"


def slab_of(
  spec: Spec,
  o: pb.QuantizeOptions | None,
  dtype: str,
  rows: int,
  cols: int,
  row: int,
  band_rows: int,
) -> Slab:
  """Where rows [row, row + band_rows) of rows x cols lie in a "slab".

  Args:
    spec: The whole's tensor.
    o: How the copy that it belongs to is or was made.
    dtype: Of the tensor.
    rows: Of the whole.
    cols: Of both.
    row: Where the band begins.
    band_rows: Its rows.
  """
  size = size_of(spec.dtype)
  if not spec.kind.endswith(("_data", "_scale")):
    wide = spec.size // rows
    return _rows((rows, wide), row, band_rows)
  assert o is not None
  f = geometry.format_of(o, dtype)
  columnwise = spec.kind.startswith("columnwise")
  whole = geometry.copy_shape(f, o, columnwise, rows, cols)
  band = geometry.copy_shape(f, o, columnwise, band_rows, cols)
  if spec.kind.endswith("_data"):
    return _codes(f, whole, band, columnwise, row)
  return _scales(f, whole, band, columnwise, row, size)


def _rows(shape: tuple[int, ...], row: int, count: int) -> Slab:
  """Rows that lie together; shapes are of bytes."""
  rest = tuple(_ALL for _ in shape[1:])
  return Slab(
    shape, (slice(row, row + count), *rest), (count, *shape[1:]), (_ALL, *rest)
  )


def _columns(
  whole: tuple[int, ...], band: tuple[int, ...], at: int, count: int
) -> Slab:
  """Stretches of all rows; `at` and `count` are of the second dimension."""
  rest = tuple(_ALL for _ in whole[2:])
  return Slab(
    whole,
    (_ALL, slice(at, at + count), *rest),
    band,
    (_ALL, slice(0, count), *rest),
  )


def _codes(
  f: Format, whole: CopyShape, band: CopyShape, columnwise: bool, row: int
) -> Slab:
  if columnwise and f.transposed:
    at = row // 2 if f.half else row
    return _columns(whole.data, band.data, at, band.data[1])
  return _rows(whole.data, row, band.data[0])


def _scales(
  f: Format,
  whole: CopyShape,
  band: CopyShape,
  columnwise: bool,
  row: int,
  size: int,
) -> Slab:
  shape, part = _in_bytes(whole.scale, size), _in_bytes(band.scale, size)
  block = row // f.block if f.block else 0
  if whole.order == "":  # one of each row
    return _rows((whole.scale[0], size), row, band.scale[0])
  if whole.order == "swizzled" and columnwise:
    # Tiles side by side, for every 128 columns.
    tiles, few = (_tiles(s.scale, size) for s in (whole, band))
    return _columns(tiles, few, block // _TILE_COLUMNS, few[1])
  if whole.order == "bl":
    if columnwise:
      return _rows(shape, block, band.scale[0])
    # Without the padding, which may lie where another band's scales do.
    return _columns(shape, part, row * size, band.lines * size)
  if columnwise:
    return _columns(shape, part, block * size, band.blocks * size)
  square = whole.order == "square"
  return _rows(shape, block if square else row, band.scale[0])


def _in_bytes(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
  return (*shape[:-1], shape[-1] * size)


def _tiles(shape: tuple[int, ...], size: int) -> tuple[int, int, int]:
  lines, wide = shape
  return lines // 128, wide // _TILE_COLUMNS, _TILE * size
