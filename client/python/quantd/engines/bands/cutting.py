"""Whether a call is cut into bands, where, and what is asked of a band."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from quantd import quantd_pb2 as pb
from quantd.engines import outputs
from quantd.engines.bands import amaxes
from quantd.engines.bands.places import amax_part_of, slab_of
from quantd.engines.engine import Buffer
from quantd.engines.messages import Asked
from quantd.tensors import geometry
from quantd.tensors.arrays import size_of
from quantd.tensors.geometry import Spec
from quantd.words import DTYPES

# Rows of every band but the last are a multiple of this, which every block,
# rotation and tile of scales divides.
ROWS = 128
# Bytes: calls that carry no more each way are never cut.
_NEVER = 4 << 20
# An amax for each line makes a request's head longer.
_LISTED = 16384
# No more are sent at once to meet in one amax: each holds memory of its server
# and a connection's stream until the last is there.
_MOST_MEETING = 8
# What no position may be beyond.
_FAR = 2**48


class Band(NamedTuple):
  """Rows [row, row + rows)."""

  row: int
  rows: int


@dataclass(frozen=True)
class Banded:
  """A call that is to be made in bands."""

  asked: Asked
  request: Any
  rows: int
  cols: int
  inputs: list[Spec]
  outputs: list[Spec]
  bands: list[Band]

  @property
  def needs_amax(self) -> bool:
    """Whether an amax of the whole has to be found first."""
    return isinstance(self.request, pb.QuantizeRequest) and amaxes.needed(
      self.request.options
    )

  @property
  def may_estimate(self) -> bool:
    """Whether a server's default for estimates decides about its amax."""
    return self.needs_amax and amaxes.may_estimate(self.request.options)

  def meeting(self) -> "Banded | None":
    """In bands that may meet in one amax; None: there would be too many."""
    if len(self.bands) <= _MOST_MEETING:
      return self
    height = geometry.up(-(-self.rows // _MOST_MEETING), ROWS)
    if height > _most_rows(self.request):
      return None
    return dataclasses.replace(self, bands=_bands(self.rows, height))

  @property
  def held(self) -> int:
    """Bytes that a server holds for a band: none is larger than the first."""
    rows = self.bands[0].rows
    return sum(
      spec.size * rows // self.rows for spec in self.inputs
    ) + outputs.end_of(
      outputs.laid_out(
        outputs.specs_of(message_for(self, self.bands[0], None)) or []
      )
    )

  def estimated(self, scale: float) -> "Banded":
    """The same with that default in its options."""
    request = type(self.request).FromString(self.asked.header)
    request.options.amax_estimation_scale = scale
    return dataclasses.replace(self, request=request)


def cut(asked: Asked, band_bytes: int) -> Banded | None:
  """The bands of a call; None: it is made as one.

  Because it may not be cut, is small, would be one band, or is none that a
  server takes, of which the server tells best.
  """
  kind = outputs.REQUESTS.get(asked.method)
  if kind is None or band_bytes == 0:
    return None
  size = asked.nbytes
  if size * outputs.MOST_GROWTH <= _NEVER:
    return None
  request = kind.FromString(asked.header)
  try:
    return _cut(asked, request, size, band_bytes)
  except (ValueError, LookupError, ArithmeticError):
    return None


def _cut(
  asked: Asked, request: Any, size: int, band_bytes: int
) -> Banded | None:
  given = outputs.specs_of(request)
  taken = _inputs(request)
  if not given or taken is None or _why_whole(request):
    return None
  rows, cols = outputs.matrix_of(request.tensor)
  decodes = isinstance(request, pb.DequantizeRequest)
  if size != sum(spec.size for spec in taken) or (
    decodes and len(asked.payload) != len(taken)
  ):
    return None
  carried = max(
    outputs.end_of(outputs.laid_out(specs)) for specs in (taken, given)
  )
  if carried <= max(_NEVER, band_bytes) or rows <= ROWS:
    return None
  fit = min(int(band_bytes / (carried / rows)), _most_rows(request))
  height = max(ROWS, fit // ROWS * ROWS)
  if height >= rows or _only_bands_may(request, rows):
    return None
  bands = _bands(rows, height)
  return Banded(asked, request, rows, cols, taken, given, bands)


def _bands(rows: int, height: int) -> list[Band]:
  return [Band(row, min(height, rows - row)) for row in range(0, rows, height)]


def _why_whole(request: Any) -> str:
  """Why a call is never cut; empty: it may be."""
  o = request.options
  if isinstance(request, pb.ApplyRhtRequest):
    return ""
  if o.HasField("splits"):
    return "groups"
  if isinstance(request, pb.RhtAmaxRequest):
    return ""
  cols = outputs.matrix_of(request.tensor)[1]
  copy = o
  if isinstance(request, pb.DequantizeRequest):
    if o.rotated_dimension:
      return "a rotated operand with its padding"
    copy = outputs.copy_options(o)
  elif o.HasField("history"):
    return "a history, to which all rows belong"
  elif o.dbias or o.statistics:
    return "sums, which have an order"
  if amaxes.has_copy(copy, "columnwise") and amaxes.of_lines(copy):
    return "an amax for each of many columns" if cols > _LISTED else ""
  return ""


def _most_rows(request: Any) -> int:
  """Those whose list of amaxes may stand in a request."""
  o = request.options
  quantize = isinstance(request, pb.QuantizeRequest)
  listed = quantize and amaxes.of_lines(o) and amaxes.has_copy(o, "rowwise")
  return _LISTED if listed else _FAR


def _only_bands_may(request: Any, rows: int) -> bool:
  """Whether bands could be legal requests where the whole is none."""
  if not isinstance(request, pb.QuantizeRequest):
    return False
  o = request.options
  listed = amaxes.given(o, "rowwise") if amaxes.of_lines(o) else []
  return (
    (bool(listed) and len(listed) != rows)
    or o.shard.row_offset + rows > _FAR
    or amaxes.estimates_nothing(o)
  )


def _inputs(request: Any) -> list[Spec] | None:
  """What the payload is made of, back to back."""
  rows, cols = outputs.matrix_of(request.tensor)
  if not isinstance(request, pb.DequantizeRequest):
    return [Spec("input", DTYPES.word(request.tensor.dtype), (rows, cols))]
  o = request.options
  found = _stored(request, rows, cols)
  if request.tensors:
    # As this package has them: each once, in their order.
    names = [outputs.number_of(spec.kind) for spec in found]
    if [ref.kind for ref in request.tensors] != names[: len(request.tensors)]:
      return None
  if request.HasField("amax"):
    found = found[:2]
  return found if o.usage in (1, 2) else None


def _stored(request: pb.DequantizeRequest, rows: int, cols: int) -> list[Spec]:
  """The parts of the copy that a Dequantize of so many rows takes."""
  made = outputs.copy_options(request.options)
  tensor = pb.Tensor(
    dtype=request.tensor.dtype or pb.DTYPE_F32, shape=(rows, cols)
  )
  side = amaxes.SIDES[request.options.usage == pb.USAGE_COLUMNWISE]
  kinds = [f"{side}_data", f"{side}_scale"]
  if amaxes.format_of(made).scaling == "nvfp4":
    kinds.append(geometry.global_kind(made) or f"{side}_amax")
  by_kind = {spec.kind: spec for spec in geometry.specs(tensor, made)}
  return [by_kind[kind] for kind in kinds]


def message_for(whole: Banded, band: Band, amax: amaxes.Found | None) -> Any:
  """The request for one band.

  Args:
    whole: What it is a band of.
    band: Which.
    amax: What was settled, where the whole needs it.
  """
  request = type(whole.request)()
  request.CopyFrom(whole.request)
  request.tensor.CopyFrom(
    pb.Tensor(dtype=whole.request.tensor.dtype, shape=(band.rows, whole.cols))
  )
  if isinstance(request, pb.QuantizeRequest):
    _fit_options(request.options, whole, band, amax)
  elif isinstance(request, pb.DequantizeRequest) and request.tensors:
    del request.tensors[:]
    stored = _stored(request, band.rows, whole.cols)[: len(whole.inputs)]
    at = 0
    for ref, spec in zip(
      outputs.refs_of(outputs.laid_out(stored)), stored, strict=True
    ):
      ref.offset = at
      at += spec.size
      request.tensors.append(ref)
  return request


def _fit_options(
  o: pb.QuantizeOptions, whole: Banded, band: Band, amax: amaxes.Found | None
) -> None:
  """What a band is asked in the place of what the whole was."""
  if amax is not None:
    o.given_amax.CopyFrom(amax.given_to(*band))
    o.ClearField("amax_estimation_scale")
  else:
    amaxes.keep_rows(o, *band)
  if o.rounding == pb.ROUNDING_STOCHASTIC:
    # The whole may itself be a part of something.
    if o.shard.total_columns == 0:
      o.shard.total_columns = o.shard.column_offset + whole.cols
    o.shard.row_offset += band.row


def reducing_message_for(whole: Banded, band: Band) -> pb.QuantizeRequest:
  """The request for one band that is told the amax between its halves."""
  request: pb.QuantizeRequest = message_for(whole, band, None)
  o = request.options
  # What the caller gave comes back with the rest.
  o.ClearField("given_amax")
  if amaxes.may_estimate(o):
    # As the whole has it, whatever the server does by default.
    o.amax_estimation_scale = 0
  return request


def amax_message_for(whole: Banded, band: Band) -> pb.RhtAmaxRequest:
  """Asks a band what it adds to the amax of the whole."""
  return pb.RhtAmaxRequest(
    tensor=pb.Tensor(
      dtype=whole.request.tensor.dtype, shape=(band.rows, whole.cols)
    ),
    options=amaxes.question(whole.request.options),
  )


def payload_of(whole: Banded, band: Band) -> list[Buffer]:
  """The bytes that a band sends: the caller's where they lie together."""
  if not isinstance(whole.request, pb.DequantizeRequest):
    row = whole.cols * size_of(whole.inputs[0].dtype)
    return _stretch(
      whole.asked.payload, band.row * row, (band.row + band.rows) * row
    )
  copy = outputs.copy_options(whole.request.options)
  dtype = DTYPES.word(whole.request.tensor.dtype or pb.DTYPE_F32)
  found: list[Buffer] = []
  for spec, buffer in zip(whole.inputs, whole.asked.payload, strict=True):
    if amax_part_of(spec.kind, copy, dtype) == "same":
      found.append(buffer)
      continue
    slab = slab_of(spec, copy, dtype, whole.rows, whole.cols, *band)
    found.append(slab.taken_from(memoryview(buffer).cast("B")))
  return found


def _stretch(buffers: Sequence[Buffer], begin: int, end: int) -> list[Buffer]:
  """Bytes [begin, end) of buffers back to back."""
  found: list[Buffer] = []
  at = 0
  for buffer in buffers:
    view = memoryview(buffer)
    size = view.nbytes
    low, high = max(at, begin), min(at + size, end)
    if low < high:
      found.append(view.cast("B")[low - at : high - at])
    at += size
  return found
