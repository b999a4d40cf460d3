"""What a call gives, before it is made: of which kinds, how large, and where.

By that a reply that comes in chunks or in bands goes to its places at once, and
none can be larger than what was asked for.
"""

from typing import Any, NamedTuple

from quantd import quantd_pb2 as pb
from quantd.tensors import geometry
from quantd.tensors.geometry import Spec
from quantd.words import DTYPES, FORMATS, KINDS

# The requests and replies of the methods that take tensors, and what rpc Stream
# calls them.
REQUESTS: dict[str, Any] = {
  "Quantize": pb.QuantizeRequest,
  "Dequantize": pb.DequantizeRequest,
  "RhtAmax": pb.RhtAmaxRequest,
  "ApplyRht": pb.ApplyRhtRequest,
}
REPLIES: dict[str, Any] = {
  "Quantize": pb.QuantizeReply,
  "Dequantize": pb.DequantizeReply,
  "RhtAmax": pb.RhtAmaxReply,
  "ApplyRht": pb.ApplyRhtReply,
}
STREAMED = {
  "Quantize": "quantize",
  "Dequantize": "dequantize",
  "RhtAmax": "rht_amax",
  "ApplyRht": "apply_rht",
}

# No call gives more than so many times what it takes: fp32 of 4-bit codes.
MOST_GROWTH = 8

# Where the tensors of a reply begin.
_ALIGNED = 64


class Place(NamedTuple):
  """A part in the payload of a reply."""

  kind: Any  # its number
  spec: Spec
  offset: int


def number_of(kind: str) -> Any:
  """That of a kind's word."""
  return KINDS.parse("kind", kind)


def laid_out(specs: list[Spec]) -> list[Place]:
  """Where a reply has these."""
  places, at = [], 0
  for spec in specs:
    at = geometry.up(at, _ALIGNED)
    places.append(Place(number_of(spec.kind), spec, at))
    at += spec.size
  return places


def end_of(places: list[Place]) -> int:
  """Bytes of the reply's payload."""
  return places[-1].offset + places[-1].spec.size if places else 0


def refs_of(places: list[Place]) -> list[pb.TensorRef]:
  """As a reply has them."""
  return [
    pb.TensorRef(
      kind=place.kind,
      dtype=DTYPES.parse("dtype", place.spec.dtype),
      layout=pb.Layout.Name(place.spec.layout),
      shape=place.spec.shape,
      offset=place.offset,
      size=place.spec.size,
      group_offsets=place.spec.group_offsets,
    )
    for place in places
  ]


def matrix_of(tensor: pb.Tensor) -> tuple[int, int]:
  """M and K of a request's tensor."""
  return geometry.sides(tensor.shape, geometry.axis_of(tensor))


def specs_of(request: Any) -> list[Spec] | None:
  """The parts that a legal request gives, in their order.

  Returns:
    Them; None of one that is not legal, as far as it shows here: what it is
    refused for is the server's to say.
  """
  try:
    if isinstance(request, pb.QuantizeRequest):
      return geometry.specs(request.tensor, request.options)
    if isinstance(request, pb.DequantizeRequest):
      return [_decoded(request)]
    if isinstance(request, pb.RhtAmaxRequest):
      return _maxima(request)
    word = DTYPES.word(request.options.output)
    return [Spec("rotated", word, matrix_of(request.tensor))]
  except (ValueError, LookupError, ArithmeticError):
    return None


def copy_options(o: pb.DequantizeOptions) -> pb.QuantizeOptions:
  """Those by which the copy was made that is decoded, as far as shapes go."""
  made = pb.QuantizeOptions(format=o.format, usage=o.usage, profile=o.profile)
  made.form.CopyFrom(o.form)
  dimension = o.rotated_dimension
  if o.HasField("inverse_rht"):
    dimension = o.inverse_rht.dimension or 16
  if dimension:
    columnwise = o.usage == pb.USAGE_COLUMNWISE
    made.rht.dimension = dimension
    made.rht.rowwise, made.rht.columnwise = not columnwise, columnwise
  if o.HasField("splits"):
    made.splits.CopyFrom(o.splits)
  return made


def _decoded(request: pb.DequantizeRequest) -> Spec:
  o = request.options
  rows, cols = matrix_of(request.tensor)
  groups = list(o.splits.rows) if o.HasField("splits") else [rows]
  if o.rotated_dimension and o.usage == pb.USAGE_COLUMNWISE:
    # With its padding.
    block = geometry.FORMATS_BY_NAME[FORMATS.word(o.format)].block
    unit = max(block, o.rotated_dimension)
    groups = [geometry.up(m, unit) for m in groups]
  return Spec("dequantized", DTYPES.word(o.output), (sum(groups), cols))


def _maxima(request: pb.RhtAmaxRequest) -> list[Spec]:
  o = request.options
  rows, cols = matrix_of(request.tensor)
  groups = list(o.splits.rows) if o.HasField("splits") else [rows]
  lines = o.domain == pb.AMAX_DOMAIN_ROW
  found = []
  for kind, wanted in (
    ("rowwise_amax", o.rowwise),
    ("columnwise_amax", o.columnwise),
    ("rowwise_rht_amax", o.rowwise_rht),
    ("columnwise_rht_amax", o.columnwise_rht),
  ):
    count = len(groups)
    if lines:
      columnwise = kind.startswith("columnwise")
      count = cols * len(groups) if columnwise else sum(groups)
    if wanted:
      found.append(Spec(kind, "f32", (count,)))
  order = list(KINDS)
  return sorted(found, key=lambda s: order.index(s.kind))
