"""Decides whether, when and where a failed call is repeated.

The rules are those of the C++ library. Every call is a pure function of its
request, so repeating it costs time but does no harm. Uses no clock and no
network.
"""

import random
from dataclasses import dataclass

from quantd.engines.engine import Retry

CANCELLED, DEADLINE, RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE = 1, 4, 8, 13, 14
DEVICE_FAULT = 7  # ErrorDetail.Reason


@dataclass(frozen=True)
class Failure:
  """How a call failed."""

  code: int
  message: str
  detail: bytes | None = None  # the serialized ErrorDetail
  reason: int = 0  # from the detail
  request_id: str = ""
  # Seconds until the server accepts the call again. None if retries are
  # useless.
  delay: float | None = None

  @property
  def is_answer(self) -> bool:
    """Whether the server, and not this side's gRPC, reported the failure."""
    on_this_side = (CANCELLED, DEADLINE, UNAVAILABLE)
    return self.detail is not None or self.code not in on_this_side


class Backoff:
  """The retries of one call."""

  def __init__(self, policy: Retry) -> None:
    """Starts without failures."""
    self._policy = policy
    self._base = policy.initial_backoff
    self._unanswered = self._faults = self._killed = 0

  def may_move(self, failure: Failure) -> bool:
    """Returns whether the call may be sent to another server at once."""
    if self._policy.max_attempts <= 1:
      return False
    if failure.reason == DEVICE_FAULT:
      # One retry only: a second fault is probably caused by the request.
      self._faults += 1
      return self._faults == 1
    if failure.delay is None:
      return False
    if failure.code == UNAVAILABLE:
      return self._count_unanswered()
    # Another server may have memory. A failure without details is from gRPC's
    # memory quota, which may also end a message of this size there.
    return failure.detail is not None

  def pause(self, failure: Failure) -> float | None:
    """Returns the seconds to wait before a retry. None: do not retry."""
    if failure.delay is None or self._policy.max_attempts <= 1:
      return None
    if failure.code == UNAVAILABLE:
      if not self._count_unanswered():
        return None
      return max(failure.delay, self._jittered())
    if failure.detail is None and failure.delay == 0:
      # Not the server, but gRPC's memory quota ended the call. It is retried
      # once and late, because the quota may end the same message again.
      self._killed += 1
      if self._killed > 1:
        return None
      return self._policy.max_backoff / 2 + self._jittered()
    # Retry until the deadline. Jitter spreads the retries of calls that were
    # refused together.
    return failure.delay + self._jittered()

  def _jittered(self) -> float:
    pause = self._base * random.uniform(0.5, 1.0)
    self._base = min(
      self._base * self._policy.multiplier, self._policy.max_backoff
    )
    return pause

  def _count_unanswered(self) -> bool:
    self._unanswered += 1
    return self._unanswered < self._policy.max_attempts
