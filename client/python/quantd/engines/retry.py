"""Whether and when a failed call is made again, and where.

The rules of the C++ library, restated: every call is a pure function of its
request, so that sending it again costs time and does no harm. No clock and no
network in here but those that are passed in.
"""

import random
from dataclasses import dataclass

from quantd.engines.engine import Retry

CANCELLED, DEADLINE, RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE = 1, 4, 8, 13, 14
DEVICE_FAULT = 7  # ErrorDetail.Reason


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
    on_this_side = (CANCELLED, DEADLINE, UNAVAILABLE)
    return self.detail is not None or self.code not in on_this_side


class Backoff:
  """The retries of one call."""

  def __init__(self, policy: Retry) -> None:
    """Begins anew."""
    self._policy = policy
    self._base = policy.initial_backoff
    self._unanswered = self._faults = self._killed = 0

  def may_move(self, failure: Failure) -> bool:
    """Whether the call may at once go to another server that is well."""
    if self._policy.max_attempts <= 1:
      return False
    if failure.reason == DEVICE_FAULT:
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
    self._unanswered += 1
    return self._unanswered < self._policy.max_attempts
