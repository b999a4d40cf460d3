"""One call's place in a reduction of an amax over several.

What its input adds goes out, the reduced amax comes back.
"""

import threading
from collections.abc import Callable, Mapping

from quantd import quantd_pb2 as pb
from quantd.tensors.arrays import Array

# Of each copy that is made, by its side, as many values as it has amaxes.
Maxima = Mapping[str, Array]


class Reduction:
  """Thread-safe."""

  def __init__(
    self, counts: Mapping[str, int], tell: Callable[[Maxima], None]
  ) -> None:
    """Gives maxima of so many values each to `tell`, once."""
    self._counts = counts
    self._tell = tell
    self._changed = threading.Condition()
    self._answer: pb.GivenAmax | None = None
    self.found = False

  def takes(self, maxima: Maxima) -> bool:
    """Whether they are as many as were asked for."""
    return {side: v.size for side, v in maxima.items()} == self._counts

  def find(self, maxima: Maxima) -> None:
    """Only the first counts: a call that is tried again finds the same."""
    with self._changed:
      if self.found:
        return
      self.found = True
    self._tell(maxima)

  def answer(self, amax: pb.GivenAmax) -> None:
    """What all found together; read by several threads from now on."""
    with self._changed:
      self._answer = amax
      self._changed.notify_all()

  def wake(self) -> None:
    """Who waits looks again at what he waits for."""
    with self._changed:
      self._changed.notify_all()

  def wait(
    self, over: Callable[[], bool], ready: Callable[[], bool] | None = None
  ) -> pb.GivenAmax | None:
    """Waits for the answer, and for `ready`; None: it was over before."""

    def settled() -> bool:
      return self._answer is not None and (ready is None or ready())

    with self._changed:
      self._changed.wait_for(lambda: over() or settled())
      return None if over() else self._answer
