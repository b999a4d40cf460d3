"""The pure engine: grpcio and protobuf, nothing compiled of our own.

Bytes are copied once on the way out, when header and payload are joined, and
not at all on the way in after grpcio's own copy: parts are views of the reply.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from quantd import quantd_pb2 as pb
from quantd.engines import frames
from quantd.engines.address import load_tls, load_token, parse_target
from quantd.engines.engine import Buffer, Cancellation, Into, Reply, Settings
from quantd.engines.forks import Gate
from quantd.engines.pool import Pool, Server
from quantd.engines.retry import DEADLINE, UNAVAILABLE, Backoff, Budget, Failure
from quantd.errors import Error, Invalid, from_status

_CANCELLED = 1
_INTERNAL = 13
_SERVICE = "/quantd.v1.Quantd/"
_HEALTH = "/grpc.health.v1.Health/Check"
# Seconds that a server has to say that it is there, where there is another.
_KNOCK = 1.0
_DETAIL_URL = "type.googleapis.com/quantd.v1.ErrorDetail"

_REPLIES: dict[str, Any] = {
  "Quantize": pb.QuantizeReply,
  "Dequantize": pb.DequantizeReply,
  "RhtAmax": pb.RhtAmaxReply,
  "ApplyRht": pb.ApplyRhtReply,
}


class _Life:
  """What belongs to one process; a child of a fork has another."""

  def __init__(self, settings: Settings) -> None:
    self.pool = Pool(settings)
    self.budget = Budget()
    self.lock = threading.Lock()
    self.calls: set[Any] = set()

  def rest(self) -> None:
    """Cancels what is under way and closes channels; calls open them again."""
    with self.lock:
      calls = list(self.calls)
    for call in calls:
      call.cancel()
    self.pool.close()


class Engine:
  """See `quantd.engines.engine.Engine`."""

  name = "grpc"
  takes_device = False

  def __init__(self, settings: Settings) -> None:
    """Checks the settings, and connects to nothing."""
    if settings.target.partition(":")[0] == "local":
      raise Invalid.of(
        "target",
        "an address: local devices are the native engine's",
        settings.target,
      )
    if settings.memory_socket is not None:
      raise Invalid.of(
        "memory_socket",
        "none: shared memory is the native engine's",
        settings.memory_socket,
      )
    parse_target(settings.target)
    load_tls(settings)
    load_token(settings)
    self._settings = settings
    self._lives: dict[int, _Life] = {}
    self._closed = False
    self._gate = Gate(self._rest)

  def _rest(self) -> None:
    life = self._lives.get(os.getpid())
    if life is not None:
      life.rest()

  def _life(self) -> _Life:
    pid = os.getpid()
    # One step of the interpreter, so that threads need no lock here: one that
    # was held during a fork would never be released in the child.
    return self._lives.get(pid) or self._lives.setdefault(
      pid, _Life(self._settings)
    )

  def call(
    self,
    method: str,
    header: bytes,
    payload: Sequence[Buffer],
    into: Into,
    timeout: float | None,
    cancel: Cancellation | None,
  ) -> Reply:
    """See `quantd.engines.engine.Engine.call`."""
    if timeout is None:
      timeout = self._settings.deadline
    exchange = _Exchange(
      self, method, frames.join(header, payload), timeout, cancel
    )
    answer, attempts = exchange.run()
    return _read_reply(method, answer, into, attempts, self._settings.target)

  def memory(self, nbytes: int) -> Buffer:
    """See `quantd.engines.engine.Engine.memory`: ordinary memory."""
    return bytearray(nbytes)

  @contextlib.contextmanager
  def under_way(self, life: _Life, call: Any) -> Iterator[None]:
    """Keeps a call where `close` finds it."""
    with life.lock:
      life.calls.add(call)
    try:
      yield
    finally:
      with life.lock:
        life.calls.discard(call)

  def close(self) -> None:
    """See `quantd.engines.engine.Engine.close`."""
    self._closed = True
    self._rest()


class _Exchange:
  """One call with its retries."""

  def __init__(
    self,
    engine: Engine,
    method: str,
    message: bytes,
    timeout: float,
    cancel: Cancellation | None,
  ) -> None:
    self._engine = engine
    self._life = engine._life()
    self._method = _SERVICE + method
    self._message = message
    self._timeout = timeout
    self._deadline = time.monotonic() + timeout
    self._cancel = cancel
    self._attempts = 0

  def run(self) -> tuple[bytes, int]:
    settings = self._engine._settings
    pool = self._life.pool
    backoff = Backoff(settings.retry, self._life.budget)
    tried: set[Server] = set()
    while True:
      self._check_stopped()
      sent = self._attempts
      server = pool.pick(len(self._message), tried)
      if server is None:
        failure = Failure(UNAVAILABLE, "no server can be had", delay=0.0)
      else:
        with self._engine._gate.inside() as forks:
          answer = self._knock(server, tried) or self._send(server)
        pool.put_back(server, len(self._message), answer)
        if isinstance(answer, bytes):
          self._life.budget.refund()
          return answer, self._attempts
        failure = answer
        if forks != self._engine._gate.forks:
          # It was cancelled for a fork, which is nobody's failure.
          self._attempts = sent
          tried.clear()
          continue
      self._check_stopped()
      if pool.has_another(tried) and backoff.may_move(failure):
        continue
      pause = backoff.pause(failure)
      # The last word of the server tells more than "deadline exceeded" would.
      if pause is None or time.monotonic() + pause >= self._deadline:
        raise self._explain(failure)
      self._sleep(pause)
      tried.clear()

  def _knock(self, server: Server, tried: set[Server]) -> Failure | None:
    """Asks a server that was not heard of yet for its health; None: send.

    One that takes the connection and never speaks would keep the call until
    its deadline, while another one could have it.
    """
    if server.heard or not self._life.pool.has_untried(tried):
      return None
    patience = min(_KNOCK, (self._deadline - time.monotonic()) / 2)
    answer = self._ask(server, _HEALTH, b"", patience, [])
    if isinstance(answer, bytes):
      return None
    if answer.code == DEADLINE and answer.detail is None:
      return Failure(UNAVAILABLE, "it does not speak", delay=0.0)
    # Whatever else it says, it is there: it may have no such service.
    return answer if answer.code in (UNAVAILABLE, _CANCELLED) else None

  def _send(self, server: Server) -> "bytes | Failure":
    self._attempts += 1
    left = self._deadline - time.monotonic()
    metadata = [("quantd-request-bytes", str(len(self._message)))]
    metadata += self._life.pool.metadata
    return self._ask(server, self._method, self._message, left, metadata)

  def _ask(
    self,
    server: Server,
    method: str,
    message: bytes,
    timeout: float,
    metadata: list[tuple[str, str]],
  ) -> "bytes | Failure":
    import grpc

    if timeout <= 0:
      return Failure(DEADLINE, "")
    try:
      with server.connection() as channel:
        call = channel.unary_unary(method).future(
          message, timeout=timeout, metadata=metadata
        )
        with self._engine.under_way(self._life, call):
          return self._wait(call)
    except grpc.FutureCancelledError:
      return Failure(_CANCELLED, "the call was cancelled")
    except ValueError as closed:
      # What grpcio says of a channel that was closed meanwhile.
      return Failure(UNAVAILABLE, str(closed), delay=0.0)

  def _wait(self, call: Any) -> "bytes | Failure":
    forget = self._cancel.on_cancel(call.cancel) if self._cancel else None
    try:
      failed = call.exception()
      return _failure_of(failed) if failed is not None else bytes(call.result())
    except BaseException:
      # A KeyboardInterrupt, or whatever else a signal handler raised: the call
      # is ended, the connection lives.
      call.cancel()
      raise
    finally:
      if forget is not None:
        forget()

  def _check_stopped(self) -> None:
    if self._cancel is not None and self._cancel.cancelled:
      message = "cancelled by the caller"
    elif self._engine._closed:
      message = "the connection was closed"
    else:
      return
    raise from_status(_CANCELLED, message, attempts=self._attempts)

  def _sleep(self, seconds: float) -> None:
    woken = threading.Event()
    forget = self._cancel.on_cancel(woken.set) if self._cancel else None
    try:
      woken.wait(seconds)
    finally:
      if forget is not None:
        forget()

  def _explain(self, failure: Failure) -> Error:
    text = failure.message
    pool = self._life.pool
    if failure.code == UNAVAILABLE and pool.size > 1:
      text = (
        f"none of {pool.size} quantd servers takes the call: {pool.account()}"
      )
    elif failure.code == UNAVAILABLE and self._attempts == 0:
      text = f"cannot reach a quantd server: {pool.account()}"
    elif failure.code == UNAVAILABLE and not failure.request_id:
      text = f"cannot reach a quantd server at {self._engine._settings.target}: {text}"
    elif failure.code == DEADLINE and not failure.request_id:
      target = self._engine._settings.target
      text = f"no reply from {target} within {self._timeout * 1000:.0f} ms"
      if pool.size > 1 or self._attempts == 0:
        text += f": {pool.account()}"
    return from_status(
      failure.code,
      text,
      failure.detail,
      request_id=failure.request_id,
      attempts=self._attempts,
    )


def _detail_of(status: bytes) -> bytes | None:
  """The ErrorDetail in a serialized google.rpc.Status."""
  from google.protobuf import any_pb2, message

  # A Status is code = 1, message = 2, details = 3; only the last is of use.
  data = memoryview(status)
  at = 0
  try:
    while at < len(data):
      tag, at = frames._read_varint(data, at)
      size, at = frames._read_varint(data, at)
      if tag & 7 == 0:
        continue
      if tag == 3 << 3 | 2:
        detail = any_pb2.Any.FromString(bytes(data[at : at + size]))
        if detail.type_url == _DETAIL_URL:
          return bytes(detail.value)
      at += size
  except (IndexError, ValueError, message.DecodeError):
    return None
  return None


def _failure_of(error: Any) -> Failure:
  """What gRPC says about a call that failed."""
  code = error.code().value[0]
  trailers = {key: value for key, value in error.trailing_metadata() or ()}
  raw = trailers.get("grpc-status-details-bin")
  detail = _detail_of(raw) if raw else None
  request_id = str(trailers.get("quantd-request-id", ""))
  message = error.details() or ""
  if code == _CANCELLED and detail is None and not request_id:
    # gRPC turns calls away like this while a server shuts down. A caller who
    # cancelled does not ask for the reason.
    text = "the call was ended on the way, or by a server that shuts down"
    return Failure(UNAVAILABLE, text, delay=0.0)
  known = pb.ErrorDetail()
  if detail is not None:
    known.ParseFromString(detail)
  delay: float | None = None
  if code in (UNAVAILABLE, 8):
    delay = known.retry_delay_ms / 1000
    pushback = trailers.get("grpc-retry-pushback-ms")
    if pushback is not None:
      # As gRPC's retry design says: what is no number means "do not retry".
      text = str(pushback)
      delay = int(text) / 1000 if text.isdigit() else None
  return Failure(code, message, detail, known.reason, request_id, delay)


def _read_reply(
  method: str, message: bytes, into: Into, attempts: int, server: str
) -> Reply:
  from google.protobuf import message as message_module

  try:
    header, payload = frames.split(message)
    kind = _REPLIES.get(method)
    refs = [] if kind is None else kind.FromString(header).tensors
  except (ValueError, message_module.DecodeError) as wrong:
    text = f"the reply is not a message of quantd.v1: {wrong}"
    raise from_status(_INTERNAL, text, attempts=attempts) from None
  parts = []
  for ref in refs:
    if ref.offset + ref.size > len(payload):
      text = "the reply's payload is shorter than its tensors"
      raise from_status(_INTERNAL, text, attempts=attempts)
    part = payload[ref.offset : ref.offset + ref.size]
    if ref.kind in into:
      target = memoryview(into[ref.kind]).cast("B")
      if target.nbytes != part.nbytes:
        raise Invalid.of(
          "into",
          f"{part.nbytes} bytes of kind {ref.kind}",
          f"{target.nbytes} bytes",
        )
      target[:] = part
      part = target
    parts.append(part)
  way = "unix" if server.startswith("unix:") else "tcp"
  return Reply(header, parts, attempts, way)
