"""The engine over the C++ library of quantd, which is linked into the package.

It is the faster one: buffers go to the network and come back without a copy in
Python, and calls run without the interpreter's lock. Beside servers it knows
the devices of this process: the targets "local", "local:cpu" and
"local:cuda:N". It has three peculiarities.

A fork: threads do not survive one, and gRPC lives by threads. In a process that
was forked from one where this engine was in use every call, and every new
connection, raises `quantd.Forked` at once. Start processes by "spawn" or
"forkserver".

Signals: a call of the main thread ends when SIGINT or SIGTERM arrives and
Python has a handler for it, and what that raises, KeyboardInterrupt as a rule,
is raised by the call; the connection lives on. Where the handler raises
nothing, the call is made again in the time that it has left: it is a pure
function. Handlers of other signals run when the call is over.

Memory: glibc gives large blocks back to the kernel whenever they are freed, and
bulk calls then pay for every page of every result again. `tune_allocator` stops
that, for the whole process, so that nothing here does it unasked.
"""

import weakref
from collections.abc import Sequence

import numpy as np

from quantd import _native
from quantd.engines.address import load_tls, load_token, parse_target
from quantd.engines.engine import (
  Buffer,
  Cancellation,
  Into,
  Progress,
  Reply,
  Settings,
)
from quantd.errors import Cancelled
from quantd.tensors.device import DeviceBytes

__all__ = ["Engine", "tune_allocator"]


def tune_allocator() -> None:
  """Sets glibc's malloc for programs whose work is bulk transfer.

  It keeps freed memory instead of giving it back to the kernel, and uses one
  arena. The whole process is changed: more memory stays resident, and many
  threads that allocate small blocks wait for each other. Call it first of all,
  before threads start and large arrays are made, or leave it out: results that
  go into buffers of the caller (`out=`) need it less. Where another allocator
  stands in for glibc's, it does nothing.
  """
  _native.tune_allocator()


def _is_local(target: str) -> bool:
  """Whether it names devices of this process, not a host called "local"."""
  kind, colon, device = target.partition(":")
  return kind == "local" and not (colon and device.isdecimal())


class Engine:
  """See `quantd.engines.engine.Engine`."""

  name = "native"

  def __init__(self, settings: Settings) -> None:
    """Connects to nothing yet; opens devices where the target is local.

    Args:
      settings: Of the connection.

    Raises:
      quantd.Invalid: They are no good.
      quantd.Forked: The process was forked from one that uses this engine.
    """
    self._local = _is_local(settings.target)
    self._closed = False
    # Whether some of the results may be written before all of the input was
    # read for the last time: by devices, of a call that a signal interrupts; of
    # a stream that broke; of another band.
    cuts = settings.band_bytes > 0 or settings.stream_from is not None
    self._rereads = self._local or cuts or settings.memory_socket is None
    if not self._local:
      # So that both engines refuse the same in the same words.
      parse_target(settings.target)
      load_tls(settings)
      load_token(settings)
    self._native = _native.Engine(settings)
    self.takes_device = bool(self._native.takes_device)
    # Also when the interpreter ends: a thread that would come back from a call
    # after that brings the process down.
    self._finalizer = weakref.finalize(self, self._native.close)

  def call(
    self,
    method: str,
    header: bytes,
    payload: Sequence[Buffer],
    into: Into,
    timeout: float | None,
    cancel: Cancellation | None,
    progress: Progress | None = None,
    traceparent: str | None = None,
    priority: str = "normal",
  ) -> Reply:
    """See `quantd.engines.engine.Engine.call`."""
    if into:
      payload = [
        apart(buffer, into)
        if self._rereads or isinstance(buffer, DeviceBytes)
        else buffer
        for buffer in payload
      ]
    # The module knows bytes of a GPU by their address, and keeps nothing: they
    # live in `payload` and `there`.
    sent, targets = payload, into
    there: dict[int, DeviceBytes] = {}
    if self.takes_device:
      sent = [_address(buffer) for buffer in payload]
      there = {k: b for k, b in into.items() if isinstance(b, DeviceBytes)}
      targets = {k: _address(buffer) for k, buffer in into.items()}
    token = forget = None
    if cancel is not None:
      token = _native.Token()
      forget = cancel.on_cancel(token.cancel)
    try:
      head, parts, *how = self._native.call(
        method,
        header,
        sent,
        dict(targets),
        timeout,
        token,
        progress,
        traceparent,
        priority,
      )
      # The module names a part in GPU memory by the number of its kind.
      parts = [there[p] if isinstance(p, int) else p for p in parts]
      return Reply(head, parts, *how)
    except Cancelled as error:
      # The module tells no end of a call from another.
      if self._closed and not (cancel is not None and cancel.cancelled):
        error.say("the connection was closed")
      raise
    finally:
      if forget is not None:
        forget()

  def memory(self, nbytes: int) -> Buffer:
    """See `quantd.engines.engine.Engine.memory`."""
    return self._native.memory(nbytes)

  def close(self) -> None:
    """See `quantd.engines.engine.Engine.close`."""
    self._closed = True
    self._finalizer()


def _address(buffer: Buffer) -> Buffer:
  """Bytes of a GPU as their address and their number."""
  if isinstance(buffer, DeviceBytes):
    return (buffer.pointer, buffer.nbytes)
  return buffer


def apart(buffer: Buffer, into: Into) -> Buffer:
  """An input, or a copy of one that is to be written over."""
  if isinstance(buffer, DeviceBytes):
    for other in into.values():
      if isinstance(other, DeviceBytes) and buffer.overlaps(other):
        return buffer.copy()
    return buffer
  if memoryview(buffer).nbytes == 0:
    return buffer
  here = np.frombuffer(buffer, np.uint8)
  for other in into.values():
    if isinstance(other, DeviceBytes):
      continue
    size = memoryview(other).nbytes
    if size and np.may_share_memory(here, np.frombuffer(other, np.uint8)):
      return here.copy()
  return buffer
