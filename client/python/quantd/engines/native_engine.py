"""The native engine: the C++ library of quantd, linked into the package.

It is faster than the engine "grpc": buffers are sent and received without a
copy in Python, and calls run without the interpreter's lock. Besides servers it
supports the devices of this process, as targets "local", "local:cpu" and
"local:cuda:N". It differs from that engine in three ways.

Forks: gRPC depends on threads, which do not survive a fork. In a process that
was forked from one that had used this engine, every call and every new
connection raises `quantd.Forked` at once. Start processes with "spawn" or
"forkserver".

Signals: a call on the main thread ends when SIGINT or SIGTERM arrives and
Python has a handler for it. The call raises what the handler raises, usually
KeyboardInterrupt, and the connection stays usable. If the handler raises
nothing, the call is repeated within its remaining time. Handlers of other
signals run when the call is over.

Memory: glibc returns large blocks to the kernel when they are freed, so that
bulk calls need new pages for every result. `tune_allocator` prevents that.
It affects the whole process, so it is never called implicitly.
"""

import weakref
from collections.abc import Sequence

import numpy as np

from quantd import _native
from quantd.engines.address import load_tls, load_token, parse_target
from quantd.engines.engine import PLAIN, Buffer, How, Into, Reply, Settings
from quantd.errors import Cancelled
from quantd.tensors.device import DeviceBytes


def tune_allocator() -> None:
  """Tunes glibc's malloc for programs that mostly transfer large tensors.

  Freed memory is kept instead of being returned to the kernel, and a single
  arena is used. This changes the whole process: more memory stays resident, and
  threads that allocate small blocks wait for each other. Call it before threads
  start and large arrays are made. It helps less if results are written to the
  caller's buffers (`out=`). It does nothing with other allocators than glibc's.
  """
  _native.tune_allocator()


def _is_local(target: str) -> bool:
  """Returns whether `target` names local devices, not a host named "local"."""
  kind, colon, device = target.partition(":")
  return kind == "local" and not (colon and device.isdecimal())


class Engine:
  """See `quantd.engines.engine.Engine`."""

  name = "native"

  def __init__(self, settings: Settings) -> None:
    """Opens the devices of a local target. Does not connect to servers.

    Args:
      settings: The settings of the connection.

    Raises:
      quantd.Invalid: The settings are invalid.
      quantd.Forked: The process was forked from one that uses this engine.
    """
    self._local = _is_local(settings.target)
    self._closed = False
    # Whether an output may be written before the input is read for the last
    # time. This happens if a signal interrupts a call on local devices, if a
    # stream breaks, and between bands.
    cuts = settings.band_bytes > 0 or settings.stream_from is not None
    self._rereads = self._local or cuts or settings.memory_socket is None
    if not self._local:
      # Checked here so that both engines refuse the same values with the same
      # messages.
      parse_target(settings.target)
      load_tls(settings)
      load_token(settings)
    self._native = _native.Engine(settings)
    self.takes_device = bool(self._native.takes_device)
    # Also closes when the interpreter ends. A thread that returns from a call
    # after that would crash the process.
    self._finalizer = weakref.finalize(self, self._native.close)

  def call(
    self,
    method: str,
    header: bytes,
    payload: Sequence[Buffer],
    into: Into,
    how: How = PLAIN,
  ) -> Reply:
    """See `quantd.engines.engine.Engine.call`."""
    if into:
      payload = [
        apart(buffer, into)
        if self._rereads or isinstance(buffer, DeviceBytes)
        else buffer
        for buffer in payload
      ]
    # The C++ module identifies GPU memory by its address and holds no
    # reference. `payload` and `there` keep it alive.
    sent, targets = payload, into
    there: dict[int, DeviceBytes] = {}
    if self.takes_device:
      sent = [_address(buffer) for buffer in payload]
      there = {k: b for k, b in into.items() if isinstance(b, DeviceBytes)}
      targets = {k: _address(buffer) for k, buffer in into.items()}
    token = forget = None
    if how.cancel is not None:
      token = _native.Token()
      forget = how.cancel.on_cancel(token.cancel)
    try:
      head, parts, *rest = self._native.call(
        method,
        header,
        sent,
        dict(targets),
        how.timeout,
        token,
        how.progress,
        how.traceparent,
        how.priority,
      )
      # The C++ module represents a part in GPU memory by its kind number.
      parts = [there[p] if isinstance(p, int) else p for p in parts]
      return Reply(head, parts, *rest)
    except Cancelled as error:
      # The C++ module does not report why a call was cancelled.
      if self._closed and not (how.cancel is not None and how.cancel.cancelled):
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
  """Returns address and size of GPU memory; other buffers unchanged."""
  if isinstance(buffer, DeviceBytes):
    return (buffer.pointer, buffer.nbytes)
  return buffer


def apart(buffer: Buffer, into: Into) -> Buffer:
  """Returns an input, or a copy if an output overlaps it."""
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
