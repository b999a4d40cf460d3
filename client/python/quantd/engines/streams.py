"""One call of the pure engine in chunks: rpc Stream.

For what is larger than a message. A chunk is copied out of the caller's memory
when it is sent and into its place when it came, and no more of the payload is
held than that.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from quantd import quantd_pb2 as pb
from quantd.engines import copying, frames, outputs
from quantd.engines.engine import Buffer, Into, Reply
from quantd.engines.exchange import Attempt, Exchange, Metadata, Watch
from quantd.engines.messages import INTERNAL, SERVICE, Asked, writable
from quantd.engines.outputs import Place
from quantd.engines.reducing import Maxima, Reduction
from quantd.engines.retry import Failure

# Bytes of a chunk. For each one threads change hands some times.
CHUNK = 1 << 20
# Seconds for a thread to notice that its call has ended.
_PATIENCE = 5.0
_ABORTED = 10


def call(
  asked: Asked, exchange: Exchange, way: str, reduction: Reduction | None = None
) -> Reply:
  """Makes it.

  Args:
    asked: The call.
    exchange: Sends it.
    way: For the reply.
    reduction: Where the amax of a Quantize is reduced; it is told the maxima,
      and answers. What fails after that is not tried again here.

  Raises:
    quantd.Error: As any call, or because the server has no streams.
  """
  request = outputs.REQUESTS[asked.method].FromString(asked.header)
  size = asked.nbytes
  head = pb.StreamRequest(payload_bytes=size)
  field = outputs.STREAMED[asked.method] if reduction is None else "reduce_amax"
  getattr(head, field).CopyFrom(request)
  specs = outputs.specs_of(request)
  places = outputs.laid_out(specs or [])
  targets = _targets(places, asked.into)
  first = head.SerializeToString()
  attempt = _attempt(first, asked, places, targets, reduction)
  header = exchange.run(attempt, len(first) + size, [])
  parts = [memoryview(t).toreadonly() for t in targets]
  for i, at in enumerate(places):
    if at.kind in asked.into:
      parts[i] = targets[i]
  return Reply(header, parts, exchange.attempts, way, streamed=True)


def _targets(places: Sequence[Place], into: Into) -> list[memoryview]:
  """Where the parts go."""
  return [
    writable(at.kind, at.spec.size, into)
    if at.kind in into
    else np.empty(at.spec.size, np.uint8).data
    for at in places
  ]


class _Chunks:
  """What one attempt sends, read by a thread of grpcio's."""

  def __init__(
    self, first: bytes, payload: Sequence[Buffer], reduction: Reduction | None
  ) -> None:
    self._reduction = reduction
    self._messages = self._cut(first, payload)
    self._reader: threading.Thread | None = None
    self._told = self._ended = False

  def _cut(self, first: bytes, payload: Sequence[Buffer]) -> Iterator[bytes]:
    yield first
    for buffer in payload:
      view = memoryview(buffer)
      if view.nbytes == 0:
        continue  # which has no bytes to cast
      view = view.cast("B")
      for at in range(0, view.nbytes, CHUNK):
        yield frames.join(b"", [view[at : at + CHUNK]])
    if self._reduction is not None:
      amax = self._reduction.wait(lambda: self._ended, lambda: self._told)
      if amax is not None:
        yield pb.StreamRequest(reduced_amax=amax).SerializeToString()

  def __iter__(self) -> "_Chunks":
    return self

  def __next__(self) -> bytes:
    self._reader = threading.current_thread()
    if self._ended:
      raise StopIteration
    return next(self._messages)

  def take(self, maxima: Maxima) -> bool:
    """What the server found of the input; False: that is not it."""
    reduction = self._reduction
    if reduction is None or self._told or not reduction.takes(maxima):
      return False
    self._told = True
    reduction.wake()
    reduction.find(maxima)
    return True

  @property
  def waits(self) -> bool:
    """Whether maxima are to come."""
    return self._reduction is not None and not self._told

  def end(self) -> None:
    """The call is over: the caller's memory is not read any more after this."""
    self._ended = True
    if self._reduction is not None:
      self._reduction.wake()
    if self._reader is not None:
      self._reader.join(_PATIENCE)


class _Gather:
  """What one attempt brings back. Nothing in it is trusted."""

  def __init__(
    self, places: Sequence[Place], targets: Sequence[memoryview]
  ) -> None:
    self._places = places
    self._targets = targets
    self._size = outputs.end_of(list(places))
    self._at = 0
    self._came = 0

  def add(self, chunk: memoryview) -> bool:
    """Puts the next bytes where they belong; False: nobody asked for them."""
    end = self._came + chunk.nbytes
    if end > self._size:
      return False
    while self._at < len(self._places):
      place = self._places[self._at]
      last = place.offset + place.spec.size
      low, high = max(self._came, place.offset), min(end, last)
      if low < high:
        copying.copy(
          self._targets[self._at][low - place.offset : high - place.offset],
          chunk[low - self._came : high - self._came],
        )
      if last > end:
        break
      self._at += 1
    self._came = end
    return True

  def fits(self, refs: Sequence[pb.TensorRef]) -> bool:
    """Whether all came, and lies where the reply says."""
    return self._came == self._size and [
      (ref.kind, ref.offset, ref.size) for ref in refs
    ] == [(at.kind, at.offset, at.spec.size) for at in self._places]


def _attempt(
  first: bytes,
  asked: Asked,
  places: Sequence[Place],
  targets: Sequence[memoryview],
  reduction: Reduction | None,
) -> "Attempt[bytes]":
  import grpc

  def attempt(
    channel: Any, timeout: float, metadata: Metadata, watch: Watch
  ) -> "bytes | Failure":
    chunks = _Chunks(first, asked.payload, reduction)
    gather = _Gather(places, targets)
    call = channel.stream_stream(SERVICE + "Stream")(
      chunks, timeout=timeout, metadata=metadata
    )
    try:
      with watch(call):
        header = _receive(call, asked.method, gather, chunks)
        if header is None:
          call.cancel()
    except grpc.RpcError as failed:
      if reduction is None or not reduction.found:
        raise
      # Others wait for nothing more of it, and it can go as a plain call.
      return Failure(_ABORTED, failed.details() or "")
    finally:
      chunks.end()
    if header is None:
      return Failure(INTERNAL, "the reply is not the one that was asked for")
    return header

  return attempt


def _receive(
  call: Any, method: str, gather: _Gather, chunks: _Chunks
) -> bytes | None:
  """The header of the reply; None: what came is not it."""
  from google.protobuf import message as message_module

  header: bytes | None = None
  for message in call:
    try:
      rest, chunk = frames.split(message)
      if header is not None or (rest and chunk.nbytes):
        return None
      if chunks.waits:
        if chunk.nbytes or not chunks.take(_maxima(rest)):
          return None
        continue
      if chunk.nbytes:
        if not gather.add(chunk):
          return None
        continue
      reply = pb.StreamReply.FromString(rest)
    except (ValueError, message_module.DecodeError):
      return None
    if reply.WhichOneof("reply") != outputs.STREAMED[method]:
      return None
    made = getattr(reply, outputs.STREAMED[method])
    if not gather.fits(made.tensors):
      return None
    header = made.SerializeToString()
  return header


def _maxima(message: bytes) -> Maxima:
  """Those of the copies that have some; of a message that has none, none."""
  found = pb.StreamReply.FromString(message).maxima
  return {
    side: np.array(values, np.float32)
    for side, values in (
      ("rowwise", found.rowwise),
      ("columnwise", found.columnwise),
    )
    if values
  }
