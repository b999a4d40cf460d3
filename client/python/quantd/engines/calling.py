"""One call of the pure engine, with retries on one or more servers."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grpc

from quantd.engines.engine import How, Settings
from quantd.engines.retry import (
  CANCELLED,
  DEADLINE,
  UNAVAILABLE,
  Backoff,
  Failure,
)
from quantd.engines.servers import Server, Servers, check_fork
from quantd.engines.status import failure_of
from quantd.errors import Error, from_status

T = TypeVar("T")

Metadata = list[tuple[str, str]]
# Wraps a pending gRPC call: registers the function that cancels it.
Watch = Callable[
  [Callable[[], object]], contextlib.AbstractContextManager[None]
]
# Makes one attempt on a channel, with a timeout in seconds.
Attempt = Callable[[Any, float, Metadata, Watch], "T | Failure"]

_HEALTH = "/grpc.health.v1.Health/Check"
# Timeout in seconds of a health check. A server is checked if it did not answer
# the last call, and there is another server.
_KNOCK = 1.0


def ask(method: str, message: bytes) -> "Attempt[bytes]":
  """Returns an attempt that sends one message and receives one."""

  def attempt(
    channel: Any, timeout: float, metadata: Metadata, watch: Watch
  ) -> "bytes | Failure":
    call = channel.unary_unary(method).future(
      message, timeout=timeout, metadata=metadata
    )
    with watch(call.cancel):
      failed = call.exception()
      return failure_of(failed) if failed is not None else bytes(call.result())

  return attempt


class Call:
  """A call with a deadline."""

  def __init__(self, servers: Servers, settings: Settings, how: How) -> None:
    """Starts the deadline."""
    check_fork()
    self._servers = servers
    self._settings = settings
    self._seconds = settings.deadline if how.timeout is None else how.timeout
    self._deadline = time.monotonic() + self._seconds
    self._cancel = how.cancel
    # Sent with each attempt.
    self._metadata = list(servers.metadata)
    if how.traceparent is not None:
      self._metadata.append(("traceparent", how.traceparent))
    if how.priority != "normal":
      self._metadata.append(("quantd-priority", how.priority))
    self.attempts = 0

  def run(self, attempt: "Attempt[T]", size: int, metadata: Metadata) -> T:
    """Sends a request of `size` bytes, with retries.

    Raises:
      quantd.Error: The server reported an error or did not answer.
    """
    backoff = Backoff(self._settings.retry)
    metadata = metadata + self._metadata
    self.attempts = 0
    tried: set[Server] = set()
    while True:
      self._check_stopped()
      server = self._servers.pick(size, tried)
      answer: T | Failure | None = None
      try:
        answer = self._knock(server, tried)
        if answer is None:
          self.attempts += 1
          left = self._deadline - time.monotonic()
          answer = self._send(server, attempt, left, metadata)
      finally:
        self._servers.put_back(server, size, answer)
      if not isinstance(answer, Failure):
        return answer
      self._check_stopped()
      if self._servers.has_another(tried) and backoff.may_move(answer):
        continue
      pause = backoff.pause(answer)
      # The last error of a server explains more than "deadline exceeded".
      if pause is None or time.monotonic() + pause >= self._deadline:
        raise self._explain(answer)
      woken = threading.Event()
      with self._watch(woken.set):
        woken.wait(pause)
      tried.clear()

  def _knock(self, server: Server, tried: set[Server]) -> Failure | None:
    """Checks a server's health if needed. Returns None if it may be used."""
    if server.heard or not self._servers.has_another(tried, well=False):
      return None
    patience = min(_KNOCK, (self._deadline - time.monotonic()) / 2)
    answer = self._send(server, ask(_HEALTH, b""), patience, [])
    if not isinstance(answer, Failure):
      return None
    if answer.code == DEADLINE and answer.detail is None:
      return Failure(UNAVAILABLE, "it does not answer health checks", delay=0.0)
    # Any other answer proves that the server works; the health service is
    # optional.
    return answer if answer.code in (UNAVAILABLE, CANCELLED) else None

  def _send(
    self,
    server: Server,
    attempt: "Attempt[T]",
    timeout: float,
    metadata: Metadata,
  ) -> "T | Failure":
    if timeout <= 0:
      return Failure(DEADLINE, "")
    try:
      channel = self._servers.channel(server)
      return attempt(channel, timeout, metadata, self._watch)
    except grpc.FutureCancelledError:
      return Failure(CANCELLED, "the call was cancelled")
    except grpc.RpcError as failed:
      return failure_of(failed)
    except ValueError as closed:
      # grpcio raises this for a channel that was closed during the call.
      return Failure(UNAVAILABLE, str(closed), delay=0.0)

  @contextlib.contextmanager
  def _watch(self, stop: Callable[[], object]) -> Iterator[None]:
    """Calls `stop` on cancellation, close or interrupt inside the context."""
    stops = (self._servers.closing, self._cancel)
    forget = [s.on_cancel(stop) for s in stops if s is not None]
    try:
      yield
    except BaseException:
      # A KeyboardInterrupt, or another exception of a signal handler, ends the
      # call. The connection stays usable.
      stop()
      raise
    finally:
      for action in forget:
        action()

  def _check_stopped(self) -> None:
    if self._cancel is not None and self._cancel.cancelled:
      message = "cancelled by the caller"
    elif self._servers.closing.cancelled:
      message = "the connection was closed"
    else:
      return
    raise from_status(CANCELLED, message, attempts=self.attempts)

  def _explain(self, failure: Failure) -> Error:
    text, target = failure.message, self._settings.target
    several = len(self._servers)
    if failure.code == UNAVAILABLE and several > 1:
      account = self._servers.account()
      text = f"none of {several} quantd servers accepted the call: {account}"
    elif failure.code == UNAVAILABLE and not failure.request_id:
      text = f"cannot reach a quantd server at {target}: {text}"
    elif failure.code == DEADLINE and not failure.request_id:
      text = f"no reply from {target} within {self._seconds * 1000:.0f} ms"
      if several > 1:
        text += f": {self._servers.account()}"
    return from_status(
      failure.code,
      text,
      failure.detail,
      request_id=failure.request_id,
      attempts=self.attempts,
    )
