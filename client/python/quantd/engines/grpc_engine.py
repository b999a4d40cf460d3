"""The pure engine: grpcio and protobuf, without compiled code of its own.

Every call is one message in each direction, or a stream of chunks if it exceeds
one message. Only the native engine has bands, reductions, shared memory, local
devices and several connections to a server.
"""

from collections.abc import Sequence

from google.protobuf import message as message_module

from quantd import quantd_pb2 as pb
from quantd.engines import frames, streams
from quantd.engines.calling import Call, ask
from quantd.engines.engine import PLAIN, Buffer, How, Into, Reply, Settings
from quantd.engines.retry import INTERNAL
from quantd.engines.servers import Servers
from quantd.errors import Invalid, TooLarge, Unimplemented, from_status

_SERVICE = "/quantd.v1.Quantd/"
# Limits in bytes of one message, from kMaxMessageBytes, kMaxRequestHeadBytes
# and kMaxReplyPayloadBytes of proto/limits.h.
_LARGEST_PAYLOAD = (2 << 30) - (64 << 10) - (256 << 10) - (4 << 20) // 8 * 10
_LARGEST_REPLY = (1 << 31) - (10 << 20)
# Upper bound of the ratio of a reply's payload to the request's: fp32 from
# 4-bit codes. Groups with few rows may exceed it.
_GROWTH = 8


def _check_pure(settings: Settings) -> None:
  """Raises Invalid for settings that only the native engine supports."""
  local = settings.target.partition(":")[0] == "local"
  for field, asked, expected in (
    ("target", local, "an address: local devices are"),
    ("memory_socket", settings.memory_socket, "none: shared memory is"),
    ("busy_poll", settings.busy_poll, "0: polling for answers is"),
    ("band_bytes", settings.band_bytes, "0: calls in bands are"),
  ):
    if asked:
      remedy = (
        "the native engine's; install the native wheel of quantd, or build it: "
        "QUANTD_NATIVE=1 pip install SOURCE"
      )
      got = str(getattr(settings, field))
      raise Invalid.of(field, f"{expected} {remedy}", got)


class Engine:
  """See `quantd.engines.engine.Engine`."""

  name = "grpc"
  takes_device = False

  def __init__(self, settings: Settings) -> None:
    """Checks the settings. Does not connect."""
    _check_pure(settings)
    self._settings = settings
    self._servers = Servers(settings)
    self._way = "unix" if settings.target.startswith("unix:") else "tcp"
    # The largest payload to send in one message, by method. Lowered when a
    # server refuses one as too large.
    self._largest = dict.fromkeys(streams.NAMES, _LARGEST_PAYLOAD)

  def call(
    self,
    method: str,
    header: bytes,
    payload: Sequence[Buffer],
    into: Into,
    how: How = PLAIN,
  ) -> Reply:
    """See `quantd.engines.engine.Engine.call`."""
    call = Call(self._servers, self._settings, how)
    size = sum(memoryview(buffer).nbytes for buffer in payload)

    def by_stream() -> Reply:
      attempt = streams.attempt_of(method, header, payload, size)
      head, came = call.run(attempt, len(header) + size, [])
      return self._read(method, head, came, into, call.attempts, True)

    if self._must_stream(method, size):
      reply = by_stream()
    else:
      try:
        reply = self._by_message(method, header, payload, into, call)
      except TooLarge as refused:
        if size == 0 or refused.field != "request":
          raise
        # The server did not read the payload. From now on, payloads of this
        # size are streamed at once.
        self._largest[method] = size - 1
        try:
          reply = by_stream()
        except Unimplemented:
          # The server has no streams, so the error about the size is raised.
          raise refused from None
    if how.progress is not None:
      how.progress(size, size)
    return reply

  def _must_stream(self, method: str, size: int) -> bool:
    if method not in self._largest:
      return False
    start = self._settings.stream_from
    if start is not None and size >= start:
      return True
    return size > self._largest[method] or size * _GROWTH > _LARGEST_REPLY

  def _by_message(
    self,
    method: str,
    header: bytes,
    payload: Sequence[Buffer],
    into: Into,
    call: Call,
  ) -> Reply:
    message = frames.join(header, payload)
    size = len(message)
    answer = call.run(
      ask(_SERVICE + method, message),
      size,
      [("quantd-request-bytes", str(size))],
    )
    try:
      head, came = frames.split(answer)
    except ValueError as wrong:
      raise _not_ours(wrong, call.attempts) from None
    return self._read(method, head, came, into, call.attempts, False)

  def _read(
    self,
    method: str,
    header: bytes,
    payload: memoryview,
    into: Into,
    attempts: int,
    streamed: bool,
  ) -> Reply:
    """Reads a reply. Its parts are views of the payload."""
    refs: Sequence[pb.TensorRef] = ()
    try:
      if method in streams.NAMES:
        refs = getattr(pb, f"{method}Reply").FromString(header).tensors
    except message_module.DecodeError as wrong:
      raise _not_ours(wrong, attempts) from None
    parts, end = [], 0
    for ref in refs:
      if not end <= ref.offset <= len(payload) - ref.size:
        raise _not_ours("its tensors are not in its payload", attempts)
      end = ref.offset + ref.size
      parts.append(_placed(payload[ref.offset : end], ref.kind, into))
    if end != len(payload):
      raise _not_ours("its payload is longer than its tensors", attempts)
    return Reply(header, parts, attempts, self._way, streamed=streamed)

  def memory(self, nbytes: int) -> Buffer:
    """See `quantd.engines.engine.Engine.memory`: ordinary memory."""
    return bytearray(nbytes)

  def close(self) -> None:
    """See `quantd.engines.engine.Engine.close`."""
    self._servers.close()


def _placed(part: memoryview, kind: int, into: Into) -> memoryview:
  """Copies a part into the caller's buffer, if there is one."""
  if kind not in into:
    return part
  target = memoryview(into[kind]).cast("B")
  if target.nbytes != part.nbytes:
    expected = f"{part.nbytes} bytes of kind {kind}"
    raise Invalid.of("into", expected, f"{target.nbytes} bytes")
  target[:] = part
  return target


def _not_ours(why: object, attempts: int) -> Exception:
  text = f"the reply is not a valid quantd.v1 message: {why}"
  return from_status(INTERNAL, text, attempts=attempts)
