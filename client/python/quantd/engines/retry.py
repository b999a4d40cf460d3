"""Whether and when a failed call is made again, and where.

The rules of the C++ library, restated: every call is a pure function of its
request, so that sending it again costs time and does no harm. No clock and no
network in here but those that are passed in.
"""

import random
import threading
from dataclasses import dataclass

from quantd.engines.engine import Retry

UNAVAILABLE, RESOURCE_EXHAUSTED, INTERNAL, DEADLINE = 14, 8, 13, 4
_CANCELLED = 1

# Seconds for which a server is better avoided.
_AFTER_LOSS = 1.0
_AFTER_FAULT = 5.0


@dataclass(frozen=True)
class Failure:
  """How a call ended that was sent and failed."""

  code: int
  message: str
  detail: bytes | None = None  # the serialized ErrorDetail
  reason: int = 0  # of the detail
  request_id: str = ""
  # Seconds before which the server would not see the call again; None: never.
  delay: float | None = None

  @property
  def is_answer(self) -> bool:
    """Whether a server said so, rather than gRPC on this side."""
    on_this_side = (_CANCELLED, DEADLINE, UNAVAILABLE)
    return self.detail is not None or self.code not in on_this_side


class Budget:
  """Stops retries while too many of the recent calls failed. Thread-safe."""

  _FULL = 100.0

  def __init__(self) -> None:
    """Begins with all of it."""
    self._lock = threading.Lock()
    self._tokens = self._FULL

  def spend(self) -> bool:
    """Counts a failure; True where a retry is affordable."""
    with self._lock:
      self._tokens = max(0.0, self._tokens - 1)
      return self._tokens > self._FULL / 2

  def refund(self) -> None:
    """Counts a success."""
    with self._lock:
      self._tokens = min(self._FULL, self._tokens + 1)


class Backoff:
  """The retries of one call."""

  _DEVICE_FAULT = 7

  def __init__(self, policy: Retry, budget: Budget) -> None:
    """Begins anew."""
    self._policy = policy
    self._budget = budget
    self._base = policy.initial_backoff
    self._unanswered = self._faults = self._killed = 0

  def may_move(self, failure: Failure) -> bool:
    """Whether the call may at once go to another server that is well."""
    if self._policy.max_attempts <= 1:
      return False
    if failure.reason == self._DEVICE_FAULT:
      # Once: a second fault is rather the request's than the device's.
      self._faults += 1
      return self._faults == 1
    if failure.delay is None:
      return False
    if failure.code == UNAVAILABLE:
      return self._count_unanswered()
    # Busy here says nothing of elsewhere. But where gRPC's memory quota killed
    # the stream, the message itself may be why.
    return failure.detail is not None

  def pause(self, failure: Failure) -> float | None:
    """Seconds to wait before it is sent again; None: it is not."""
    if failure.delay is None or self._policy.max_attempts <= 1:
      return None
    if failure.code == UNAVAILABLE:
      if not self._count_unanswered():
        return None
      return max(failure.delay, self._jittered())
    if failure.detail is None and failure.delay == 0:
      # Not the server's admission but gRPC's memory quota ended the stream.
      # Once more, slowly: the same message may well be killed again.
      self._killed += 1
      if self._killed > 1:
        return None
      return self._policy.max_backoff / 2 + self._jittered()
    # It is asked again until the deadline. The jitter comes on top, so that
    # the refused do not return as one.
    return failure.delay + self._jittered()

  def _jittered(self) -> float:
    pause = self._base * random.uniform(0.5, 1.0)
    self._base = min(
      self._base * self._policy.multiplier, self._policy.max_backoff
    )
    return pause

  def _count_unanswered(self) -> bool:
    affordable = self._budget.spend()
    self._unanswered += 1
    return self._unanswered < self._policy.max_attempts and affordable


@dataclass(eq=False)
class Standing:
  """What is known of a server. Changed under its pool's lock."""

  bytes_under_way: int = 0
  last_pick: int = 0  # counts up; the least was longest ago
  avoid_until: float = 0.0  # it was busy, refused or failed a call
  said: str = ""  # why

  def rank(self, now: float) -> tuple[bool, int, int]:
    """The least is the one to take."""
    return (self.avoid_until > now, self.bytes_under_way, self.last_pick)

  def report(self, failure: Failure | None, now: float) -> bool:
    """How a call ended; True where the server was lost."""
    if failure is None:
      self.avoid_until, self.said = 0.0, ""
      return False
    pause: float | None = None
    said = failure.message
    if failure.code == UNAVAILABLE:
      pause = _AFTER_LOSS
    elif failure.code == RESOURCE_EXHAUSTED:
      pause = failure.delay
    elif failure.reason == Backoff._DEVICE_FAULT or (
      failure.code == DEADLINE and failure.detail is None
    ):
      pause = _AFTER_FAULT
      if failure.code == DEADLINE:
        said = "it did not answer in time"
    if pause is not None:
      self.avoid_until, self.said = now + pause, said
    return failure.code == UNAVAILABLE
