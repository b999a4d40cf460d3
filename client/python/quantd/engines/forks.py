"""What makes a fork safe for a process that has gRPC in it.

Threads do not survive a fork, and a lock of gRPC's that one of them held would
never be released in the child. So before a fork everything that uses gRPC here
is brought to rest: calls that are under way are cancelled, to be sent again
after it, and channels are closed, by which gRPC ends its threads. Every call is
a pure function of its request, so that this costs time and does no harm.

A fork takes a few milliseconds then, and a second more where threads remain that
cannot be told from gRPC's of this engine: those of the native engine, which has a
gRPC of its own with threads of the same names, or of a connection to a peer that
does not speak, for as long as gRPC waits for it after the channel was closed.
"""

import contextlib
import glob
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator

from quantd.engines import epoll_sets

# Seconds that a fork waits for calls to come to rest.
_PATIENCE = 5.0

_gates: "weakref.WeakSet[Gate]" = weakref.WeakSet()


class Gate:
  """What calls of one engine pass through, and wait at while a fork is made."""

  def __init__(self, rest: Callable[[], None]) -> None:
    """Takes a function that cancels calls and closes channels."""
    self._rest = rest
    # What there was before this engine used gRPC.
    self.foreign = _foreign_threads()
    self._renew()
    _gates.add(self)

  def _renew(self) -> None:
    self._changed = threading.Condition()
    self._inside = 0
    self._shut = False
    # How many forks there were; a call that was cancelled by one is sent again.
    self.forks = 0

  @contextlib.contextmanager
  def inside(self) -> Iterator[int]:
    """Around whatever uses gRPC; gives the number of forks so far."""
    with self._changed:
      while self._shut:
        self._changed.wait()
      self._inside += 1
      forks = self.forks
    try:
      yield forks
    finally:
      with self._changed:
        self._inside -= 1
        self._changed.notify_all()

  def shut(self) -> None:
    """Lets nobody in, and waits until nobody is inside."""
    with self._changed:
      self._shut = True
      self.forks += 1
    self._rest()
    with self._changed:
      self._changed.wait_for(lambda: self._inside == 0, _PATIENCE)
    self._rest()

  def open(self) -> None:
    """In the parent: calls go on."""
    with self._changed:
      self._shut = False
      self._changed.notify_all()

  def begin_anew(self) -> None:
    """In the child, which has one thread and new locks."""
    self._renew()


def _foreign_threads() -> int:
  """Threads of this process that are not Python's."""
  try:
    return len(os.listdir("/proc/self/task")) - threading.active_count()
  except OSError:
    return 0


def _shutting_down() -> bool:
  """Whether gRPC's thread is at work that ends the others."""
  for name in glob.glob("/proc/self/task/*/comm"):
    with contextlib.suppress(OSError), open(name) as file:
      if file.read().strip() == "grpc_shutdown":
        return True
  return False


def _wait_while(condition: Callable[[], bool], seconds: float) -> None:
  end = time.monotonic() + seconds
  while condition() and time.monotonic() < end:
    time.sleep(0.002)


def _before() -> None:
  gates = list(_gates)
  for gate in gates:
    gate.shut()
  if not gates:
    return
  # gRPC's threads end by themselves when the last channel is closed, but not at
  # once. A program with channels of its own is not kept waiting for long.
  least = min(gate.foreign for gate in gates)
  _wait_while(lambda: _foreign_threads() > least, _PATIENCE / 5)
  _wait_while(_shutting_down, 2 * _PATIENCE + 2)


def _in_parent() -> None:
  for gate in list(_gates):
    gate.open()


def _in_child() -> None:
  gates = list(_gates)
  if gates:
    epoll_sets.separate()
  for gate in gates:
    gate.begin_anew()


os.register_at_fork(
  before=_before, after_in_parent=_in_parent, after_in_child=_in_child
)
