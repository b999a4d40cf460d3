"""What a call of Quantize asks for, and all that follows from that alone."""

from typing import NamedTuple

from quantd import quantd_pb2 as pb
from quantd.options import check_echo
from quantd.tensors import geometry
from quantd.words import DTYPES, KINDS


class Answer(NamedTuple):
  """What a reply says, beside the parts that came with it."""

  # One for each part, in their order.
  specs: tuple[geometry.Spec, ...]
  report: bytes
  request_id: str


class Asked:
  """A tensor and options, and what was worked out for the first such call.

  Programs ask the same of one tensor after the other; those calls share one of
  these, of any thread. Its messages are not to be changed.
  """

  __slots__ = ("_known", "_sizes", "header", "options", "tensor")

  def __init__(self, tensor: pb.Tensor, options: pb.QuantizeOptions) -> None:
    """Takes messages that nobody changes from now on."""
    self.tensor = tensor
    # The bytes that travel.
    self.options: bytes = options.SerializeToString()
    # The request as it travels, without its payload.
    self.header: bytes = pb.QuantizeRequest(
      tensor=tensor, options=options
    ).SerializeToString()
    self._sizes: tuple[tuple[int, int], ...] | None = None
    # The header of the last reply, and what it says. None: there was none yet,
    # which is not one that is empty.
    self._known: tuple[bytes, Answer] | None = None

  def specs(self) -> list[geometry.Spec]:
    """The parts that there will be; none where the options are refused."""
    try:
      return geometry.specs(
        self.tensor, pb.QuantizeOptions.FromString(self.options)
      )
    except (ValueError, IndexError, ZeroDivisionError):
      return []

  def sizes(self) -> tuple[tuple[int, int], ...]:
    """Number and bytes of every part that is not empty."""
    if self._sizes is None:
      self._sizes = tuple(
        (KINDS.parse("out", s.kind), s.size) for s in self.specs() if s.size
      )
    return self._sizes

  def read(self, header: bytes) -> Answer:
    """Reads the header of a reply.

    Raises:
      quantd.Unimplemented: The server dropped an option without a word.
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
  """What a reply says of a part."""
  return geometry.Spec(
    KINDS.word(ref.kind),
    DTYPES.word(ref.dtype),
    tuple(ref.shape),
    ref.layout,
    tuple(ref.group_offsets),
  )
