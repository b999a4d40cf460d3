"""One call of the pure engine by one message each way.

Bytes are copied once on the way out, when header and payload are joined, and
not at all on the way in after grpcio's own copy: parts are views of the reply.
"""

from collections.abc import Sequence
from typing import NamedTuple

from quantd.engines import copying, frames
from quantd.engines.engine import Buffer, Into, Reply
from quantd.engines.exchange import Exchange, ask
from quantd.engines.outputs import REPLIES
from quantd.errors import Invalid, from_status

SERVICE = "/quantd.v1.Quantd/"
INTERNAL = 13


class Asked(NamedTuple):
  """A call as `quantd.engines.engine.Engine.call` has it."""

  method: str
  header: bytes
  payload: Sequence[Buffer]
  into: Into

  @property
  def nbytes(self) -> int:
    """Of the payload."""
    return sum(memoryview(buffer).nbytes for buffer in self.payload)


def call(asked: Asked, exchange: Exchange, way: str) -> Reply:
  """Makes it."""
  message = frames.join(asked.header, asked.payload)
  metadata = [("quantd-request-bytes", str(len(message)))]
  answer = exchange.run(
    ask(SERVICE + asked.method, message), len(message), metadata
  )
  return _read_reply(asked, answer, exchange.attempts, way)


def place(part: memoryview, kind: int, into: Into) -> memoryview:
  """A part where the caller wants it, or where it lies."""
  if kind not in into:
    return part
  target = writable(kind, part.nbytes, into)
  copying.copy(target, part)
  return target


def writable(kind: int, nbytes: int, into: Into) -> memoryview:
  """The caller's buffer for a part of that size."""
  target = memoryview(into[kind]).cast("B")
  if target.nbytes != nbytes:
    raise Invalid.of(
      "into", f"{nbytes} bytes of kind {kind}", f"{target.nbytes} bytes"
    )
  return target


def _read_reply(asked: Asked, message: bytes, attempts: int, way: str) -> Reply:
  from google.protobuf import message as message_module

  try:
    header, payload = frames.split(message)
    kind = REPLIES.get(asked.method)
    refs = [] if kind is None else kind.FromString(header).tensors
  except (ValueError, message_module.DecodeError) as wrong:
    text = f"the reply is not a message of quantd.v1: {wrong}"
    raise from_status(INTERNAL, text, attempts=attempts) from None
  parts = []
  for ref in refs:
    if ref.offset + ref.size > len(payload):
      text = "the reply's payload is shorter than its tensors"
      raise from_status(INTERNAL, text, attempts=attempts)
    part = payload[ref.offset : ref.offset + ref.size]
    parts.append(place(part, ref.kind, asked.into))
  return Reply(header, parts, attempts, way)
