"""Valid replies with zeros as payload, for tests that change them."""

from quantd import quantd_pb2 as pb
from quantd.tensors import geometry
from quantd.words import DTYPES, KINDS

MAXIMA = ("rowwise_amax", "columnwise_amax", "rowwise_rht_amax",
          "columnwise_rht_amax")


def specs_of(request):
  """Returns the parts of a reply to Quantize, or to RhtAmax of a whole tensor."""
  if isinstance(request, pb.QuantizeRequest):
    return geometry.specs(request.tensor, request.options)
  return [geometry.Spec(kind, "f32", (1,)) for kind in MAXIMA
          if getattr(request.options, kind.removesuffix("_amax"))]


def reply_to(request):
  """Returns the reply without its payload, and the payload."""
  refs, end = [], 0
  for spec in specs_of(request):
    at = geometry.up(end, 64)
    refs.append(pb.TensorRef(
        kind=KINDS.parse("kind", spec.kind), dtype=DTYPES.parse("dtype", spec.dtype),
        layout=pb.Layout.Name(spec.layout), shape=spec.shape, offset=at, size=spec.size,
        group_offsets=spec.group_offsets))
    end = at + spec.size
  kind = (pb.QuantizeReply if isinstance(request, pb.QuantizeRequest)
          else pb.RhtAmaxReply)
  return kind(tensors=refs, tensor=request.tensor, options=request.options), bytes(end)
