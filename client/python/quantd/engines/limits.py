"""What servers allow, asked for now and then."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from quantd import quantd_pb2 as pb
from quantd.engines.engine import Reply
from quantd.errors import Error

# Seconds after which they are asked again: a server may come back with others.
_FRESH = 10.0


@dataclass(frozen=True)
class Limits:
  """How the servers of a connection are set, which are taken to be alike.

  Attributes:
    estimate: Stands for an amax_estimation_scale that a request lacks; 0: none.
    reduces: Whether their streams may have reduce_amax.
    memory: Bytes of each device that serves.
  """

  estimate: float
  reduces: bool
  memory: tuple[int, ...]

  def reduced_at_once(self, nbytes: int) -> int:
    """How many parts that hold so many bytes may meet in one amax."""
    if not self.reduces:
      return 0
    # Each lies on one device, and others have calls, too.
    return sum(n // 4 * 3 // nbytes for n in self.memory)


class Learner:
  """Knows them. Thread-safe."""

  def __init__(self) -> None:
    """Asks nobody yet."""
    self._lock = threading.Lock()
    self._known: Limits | None = None
    self._asked = 0.0

  def learn(self, ask: Callable[[], Reply]) -> Limits | None:
    """Those that `ask` brings as a GetServerInfo; None: it cannot be had."""
    now = time.monotonic()
    with self._lock:
      if self._known is not None and now - self._asked < _FRESH:
        return self._known
    from google.protobuf import message as message_module

    try:
      info = pb.GetServerInfoReply.FromString(ask().header)
    except (Error, message_module.DecodeError):
      return None
    healthy = pb.Device.STATE_HEALTHY
    found = Limits(
      info.limits.amax_estimation_scale,
      info.limits.reduce_amax,
      tuple(d.memory_limit_bytes for d in info.devices if d.state == healthy),
    )
    with self._lock:
      self._known, self._asked = found, now
    return found
