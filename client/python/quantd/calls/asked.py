"""The request of a Quantize call, and values derived from it."""

from typing import NamedTuple

from quantd import quantd_pb2 as pb
from quantd.options import check_echo
from quantd.tensors import geometry
from quantd.words import DTYPES, KINDS


class Answer(NamedTuple):
  """The content of a reply's header."""

  # One for each part of the result, in order.
  specs: tuple[geometry.Spec, ...]
  report: bytes
  request_id: str


class Asked:
  """A tensor description and options, with values derived on first use.

  Programs repeat the same request for many tensors. These calls share one
  object, on any thread. Its messages must not be changed.
  """

  __slots__ = ("_known", "_sizes", "header", "options", "tensor")

  def __init__(self, tensor: pb.Tensor, options: pb.QuantizeOptions) -> None:
    """Takes the messages, which must not be changed afterwards."""
    self.tensor = tensor
    # The serialized options.
    self.options: bytes = options.SerializeToString()
    # The serialized request without its payload.
    self.header: bytes = pb.QuantizeRequest(
      tensor=tensor, options=options
    ).SerializeToString()
    self._sizes: tuple[tuple[int, int], ...] | None = None
    # The header of the last reply, and its content. None if there was no reply
    # yet; a header may be empty.
    self._known: tuple[bytes, Answer] | None = None

  def specs(self) -> list[geometry.Spec]:
    """Returns the parts of the result; none if the options are refused."""
    try:
      return geometry.specs(
        self.tensor, pb.QuantizeOptions.FromString(self.options)
      )
    except (ValueError, IndexError, ZeroDivisionError):
      return []

  def sizes(self) -> tuple[tuple[int, int], ...]:
    """Returns kind number and size in bytes of every non-empty part."""
    if self._sizes is None:
      self._sizes = tuple(
        (KINDS.parse("out", s.kind), s.size) for s in self.specs() if s.size
      )
    return self._sizes

  def read(self, header: bytes) -> Answer:
    """Reads the header of a reply.

    Raises:
      quantd.Unimplemented: The server ignored an option.
    """
    known = self._known
    if known is not None and known[0] == header:
      return known[1]
    reply = pb.QuantizeReply.FromString(header)
    check_echo(pb.QuantizeOptions.FromString(self.options), reply.options)
    specs = tuple(map(spec_of, reply.tensors))
    report = reply.report.SerializeToString()
    answer = Answer(specs, report, reply.request_id)
    self._known = header, answer
    return answer


def spec_of(ref: pb.TensorRef) -> geometry.Spec:
  """Converts the description of a part in a reply."""
  return geometry.Spec(
    KINDS.word(ref.kind),
    DTYPES.word(ref.dtype),
    tuple(ref.shape),
    ref.layout,
    tuple(ref.group_offsets),
  )
