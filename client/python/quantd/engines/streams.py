"""Streamed calls of the pure engine (rpc Stream), which exceed one message.

A chunk is copied from the caller's memory when it is sent. The payload of the
reply arrives first. The reply that follows has the offsets of its parts.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf import message as message_module

from quantd import quantd_pb2 as pb
from quantd.engines import frames
from quantd.engines.calling import Attempt, Metadata, Watch
from quantd.engines.engine import Buffer
from quantd.engines.retry import INTERNAL, Failure

# Size of a chunk in bytes. Each chunk costs several thread switches.
CHUNK = 1 << 20
# Limits of a reply's size: this many bytes for each byte of the request, plus a
# constant. The scales of a group with one row are padded to 128 rows.
_MOST_GROWTH = 64
_MOST_BESIDE = 16 << 20

# Field names of the methods' requests and replies in a stream.
NAMES = {
  "Quantize": "quantize",
  "Dequantize": "dequantize",
  "RhtAmax": "rht_amax",
  "ApplyRht": "apply_rht",
}


def _chunks(first: bytes, payload: Sequence[Buffer]) -> Iterator[bytes]:
  """Yields all messages of a request, on a thread of grpcio."""
  yield first
  for buffer in payload:
    if not memoryview(buffer).nbytes:
      continue  # no bytes to cast
    view = memoryview(buffer).cast("B")
    for at in range(0, view.nbytes, CHUNK):
      yield frames.join(b"", [view[at : at + CHUNK]])


def attempt_of(
  method: str, header: bytes, payload: Sequence[Buffer], size: int
) -> "Attempt[tuple[bytes, memoryview]]":
  """Returns an attempt that sends a request and receives the reply."""
  name = NAMES[method]
  head = pb.StreamRequest(payload_bytes=size)
  getattr(head, name).MergeFromString(header)
  first = head.SerializeToString()
  most = size * _MOST_GROWTH + _MOST_BESIDE

  def attempt(
    channel: Any, timeout: float, metadata: Metadata, watch: Watch
  ) -> "tuple[bytes, memoryview] | Failure":
    call = channel.stream_stream("/quantd.v1.Quantd/Stream")(
      _chunks(first, payload), timeout=timeout, metadata=metadata
    )
    with watch(call.cancel):
      try:
        return _receive(call, name, most)
      except (ValueError, message_module.DecodeError) as wrong:
        call.cancel()
        text = f"the reply does not match the request: {wrong}"
        return Failure(INTERNAL, text)

  return attempt


def _receive(
  messages: Iterator[bytes], name: str, most: int
) -> tuple[bytes, memoryview]:
  """Reads a reply. Raises ValueError if it is not valid."""
  header: bytes | None = None
  payload = bytearray()
  for message in messages:
    rest, chunk = frames.split(message)
    if header is not None or (rest and chunk.nbytes):
      raise ValueError("bytes follow its end")
    if chunk.nbytes:
      if len(payload) + chunk.nbytes > most:
        raise ValueError("it is too large")
      payload += chunk
      continue
    reply = pb.StreamReply.FromString(rest)
    if reply.WhichOneof("reply") != name:
      raise ValueError("it belongs to another method")
    header = getattr(reply, name).SerializeToString()
  if header is None:
    raise ValueError("it has no end")
  return header, memoryview(payload).toreadonly()
