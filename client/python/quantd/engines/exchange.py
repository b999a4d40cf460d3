"""Makes one call of the pure engine, retries included, here or elsewhere."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from quantd.engines.engine import Cancellation, Settings
from quantd.engines.forks import Gate
from quantd.engines.pool import Pool, Server
from quantd.engines.retry import DEADLINE, UNAVAILABLE, Backoff, Budget, Failure
from quantd.engines.status import CANCELLED, failure_of
from quantd.errors import Error, from_status

T = TypeVar("T")

Metadata = list[tuple[str, str]]
# Around a call of gRPC's that is waited for: whoever ends it finds it there.
Watch = Callable[[Any], contextlib.AbstractContextManager[None]]
# Sends once, by a channel, in so many seconds, and gives the answer.
Attempt = Callable[[Any, float, Metadata, Watch], "T | Failure"]

_HEALTH = "/grpc.health.v1.Health/Check"
# Seconds that a server has to say that it is there, where there is another.
_KNOCK = 1.0


@dataclass(frozen=True)
class Limit:
  """The time that a call has, with all that it is made of.

  And what else servers are told of it.
  """

  length: float
  deadline: float  # of time.monotonic()
  metadata: Metadata

  @classmethod
  def of(cls, seconds: float, metadata: Metadata) -> "Limit":
    """From now on."""
    return cls(seconds, time.monotonic() + seconds, metadata)


class Life:
  """What belongs to one process; a child of a fork has another."""

  def __init__(self, settings: Settings) -> None:
    """Opens nothing yet."""
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


class Traffic:
  """What the calls of one engine share. Thread-safe."""

  def __init__(self, settings: Settings) -> None:
    """Connects to nothing."""
    self.settings = settings
    self.closed = False
    self.gate = Gate(self._rest)
    self._lives: dict[int, Life] = {}

  def _rest(self) -> None:
    life = self._lives.get(os.getpid())
    if life is not None:
      life.rest()

  def life(self) -> Life:
    """That of this process."""
    pid = os.getpid()
    # One step of the interpreter, so that threads need no lock here: one that
    # was held during a fork would never be released in the child.
    return self._lives.get(pid) or self._lives.setdefault(
      pid, Life(self.settings)
    )

  def close(self) -> None:
    """Ends what is under way, and all that comes."""
    self.closed = True
    self._rest()


def ask(method: str, message: bytes) -> "Attempt[bytes]":
  """Sends one message and waits for one."""

  def attempt(
    channel: Any, timeout: float, metadata: Metadata, watch: Watch
  ) -> "bytes | Failure":
    call = channel.unary_unary(method).future(
      message, timeout=timeout, metadata=metadata
    )
    with watch(call):
      failed = call.exception()
      return failure_of(failed) if failed is not None else bytes(call.result())

  return attempt


class Exchange:
  """One call with its retries."""

  def __init__(
    self, traffic: Traffic, limit: Limit, cancel: Cancellation | None
  ) -> None:
    """For one call of `run`."""
    self._traffic = traffic
    self._life = traffic.life()
    self._limit = limit
    self._cancel = cancel
    self.attempts = 0

  def run(self, attempt: "Attempt[T]", size: int, metadata: Metadata) -> T:
    """Sends `size` bytes until they are answered.

    Raises:
      quantd.Error: They are not, or not well.
    """
    pool = self._life.pool
    gate = self._traffic.gate
    backoff = Backoff(self._traffic.settings.retry, self._life.budget)
    metadata = metadata + pool.metadata + self._limit.metadata
    tried: set[Server] = set()
    while True:
      self._check_stopped()
      sent = self.attempts
      server = pool.pick(size, tried)
      if server is None:
        failure = Failure(UNAVAILABLE, "no server can be had", delay=0.0)
      else:
        answer: T | Failure | None
        try:
          with gate.inside() as forks:
            answer = self._knock(server, tried)
            if answer is None:
              self.attempts += 1
              left = self._limit.deadline - time.monotonic()
              answer = self._send(server, attempt, left, metadata)
        except BaseException:
          pool.abandon(server, size)
          raise
        pool.put_back(server, size, answer)
        if not isinstance(answer, Failure):
          self._life.budget.refund()
          return answer
        failure = answer
        if forks != gate.forks:
          # It was cancelled for a fork, which is nobody's failure.
          self.attempts = sent
          tried.clear()
          continue
      self._check_stopped()
      if pool.has_another(tried) and backoff.may_move(failure):
        continue
      pause = backoff.pause(failure)
      # The last word of the server tells more than "deadline exceeded" would.
      if pause is None or time.monotonic() + pause >= self._limit.deadline:
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
    patience = min(_KNOCK, (self._limit.deadline - time.monotonic()) / 2)
    answer = self._send(server, ask(_HEALTH, b""), patience, [])
    if not isinstance(answer, Failure):
      return None
    if answer.code == DEADLINE and answer.detail is None:
      return Failure(UNAVAILABLE, "it does not speak", delay=0.0)
    # Whatever else it says, it is there: it may have no such service.
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
    with server.connection() as channel:
      answer = self._try(channel, attempt, timeout, metadata)
      server.report(channel, answer)
      return answer

  def _try(
    self,
    channel: Any,
    attempt: "Attempt[T]",
    timeout: float,
    metadata: Metadata,
  ) -> "T | Failure":
    import grpc

    try:
      return attempt(channel, timeout, metadata, self._watch)
    except grpc.FutureCancelledError:
      return Failure(CANCELLED, "the call was cancelled")
    except grpc.RpcError as failed:
      return failure_of(failed)
    except ValueError as closed:
      # What grpcio says of a channel that was closed meanwhile.
      return Failure(UNAVAILABLE, str(closed), delay=0.0)

  @contextlib.contextmanager
  def _watch(self, call: Any) -> Iterator[None]:
    life = self._life
    with life.lock:
      life.calls.add(call)
    forget = self._cancel.on_cancel(call.cancel) if self._cancel else None
    try:
      yield
    except BaseException:
      # A KeyboardInterrupt, or whatever else a signal handler raised: the call
      # is ended, the connection lives.
      call.cancel()
      raise
    finally:
      if forget is not None:
        forget()
      with life.lock:
        life.calls.discard(call)

  def _check_stopped(self) -> None:
    if self._cancel is not None and self._cancel.cancelled:
      message = "cancelled by the caller"
    elif self._traffic.closed:
      message = "the connection was closed"
    else:
      return
    raise from_status(CANCELLED, message, attempts=self.attempts)

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
    target = self._traffic.settings.target
    if failure.code == UNAVAILABLE and pool.size > 1:
      text = (
        f"none of {pool.size} quantd servers takes the call: {pool.account()}"
      )
    elif failure.code == UNAVAILABLE and self.attempts == 0:
      text = f"cannot reach a quantd server: {pool.account()}"
    elif failure.code == UNAVAILABLE and not failure.request_id:
      text = f"cannot reach a quantd server at {target}: {text}"
    elif failure.code == DEADLINE and not failure.request_id:
      milliseconds = self._limit.length * 1000
      text = f"no reply from {target} within {milliseconds:.0f} ms"
      if pool.size > 1 or self.attempts == 0:
        text += f": {pool.account()}"
    return from_status(
      failure.code,
      text,
      failure.detail,
      request_id=failure.request_id,
      attempts=self.attempts,
    )
