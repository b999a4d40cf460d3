"""Connections with coroutines.

    q = quantd.aio.connect("127.0.0.1:50151")
    t = await q.quantize(x, "nvfp4")

Calls run on threads, which release the interpreter's lock while they wait.
Cancelling a task cancels its call. A function given as `progress=` is called by
these threads and not by the event loop.
"""

import asyncio
import contextvars
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from quantd.calls import connecting
from quantd.calls import connection as _connection
from quantd.engines.engine import Cancellation
from quantd.tensors.elements import Like
from quantd.values import whole
from quantd.words import DType

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
  call: Callable[Concatenate[_connection.Connection, P], T],
) -> Callable[Concatenate["Connection", P], Coroutine[Any, Any, T]]:
  """Turns a method of `quantd.Connection` into a coroutine."""

  @functools.wraps(call)
  async def made(
    self: "Connection", /, *args: P.args, **keywords: P.kwargs
  ) -> T:
    cancel: Any = keywords.get("cancel")
    if cancel is None:
      cancel = keywords["cancel"] = Cancellation()
    # The call belongs to the trace that is current in this task.
    context = contextvars.copy_context()
    work = functools.partial(context.run, call, self.sync, *args, **keywords)
    loop = asyncio.get_running_loop()
    try:
      return await loop.run_in_executor(self._pool(), work)
    except asyncio.CancelledError:
      cancel.cancel()
      raise

  return made


class Connection:
  """A `quantd.Connection` with coroutines; made by `connect`."""

  def __init__(
    self, connection: _connection.Connection, max_in_flight: int
  ) -> None:
    """Wraps a connection and limits the number of calls in flight."""
    # The underlying connection. Threads may use it at the same time.
    self.sync = connection
    self._max_in_flight = max_in_flight
    self._threads: ThreadPoolExecutor | None = None

  quantize = _awaited(_connection.Connection.quantize)
  quantize_all = _awaited(_connection.Connection.quantize_all)
  dequantize = _awaited(_connection.Connection.dequantize)
  amax = _awaited(_connection.Connection.amax)
  apply_rht = _awaited(_connection.Connection.apply_rht)
  plan = _awaited(_connection.Connection.plan)
  info = _awaited(_connection.Connection.info)

  @property
  def target(self) -> str:
    """The addresses of the servers."""
    return self.sync.target

  @property
  def engine(self) -> str:
    """The name of the engine: "grpc" or "native"."""
    return self.sync.engine

  @property
  def takes_device(self) -> bool:
    """See `quantd.Connection.takes_device`."""
    return self.sync.takes_device

  async def empty(
    self, shape: Any, dtype: DType = "bf16", *, like: Like = None
  ) -> Any:
    """See `quantd.Connection.empty`."""
    return self.sync.empty(shape, dtype, like=like)

  def _pool(self) -> ThreadPoolExecutor:
    if self._threads is None:
      self._threads = ThreadPoolExecutor(self._max_in_flight, "quantd")
    return self._threads

  async def close(self) -> None:
    """Cancels calls in flight and closes the connections."""
    self.sync.close()
    threads, self._threads = self._threads, None
    if threads is not None:
      await asyncio.get_running_loop().run_in_executor(None, threads.shutdown)

  async def __aenter__(self) -> Self:
    """Returns itself. `close` is called at the end."""
    return self

  async def __aexit__(self, *_: object) -> None:
    """Closes the connection."""
    await self.close()

  def __reduce__(self) -> tuple[Any, ...]:
    """Pickles the settings; the copy makes its own connections."""
    return (Connection, (self.sync, self._max_in_flight))

  def __repr__(self) -> str:
    """Shows the target and the engine."""
    return f"aio.{self.sync!r}"


def connect(
  target: str | None = None,
  *,
  max_in_flight: int = 8,
  **settings: Unpack[connecting.Keywords],
) -> Connection:
  """Makes a connection, with the arguments of `quantd.connect`.

  Args:
    target: The addresses of the servers.
    max_in_flight: Limit of calls at a time. Further calls wait.
    **settings: Settings of `quantd.connect`.

  Returns:
    The connection, which connects with its first call.

  Raises:
    quantd.Invalid: An argument is invalid.
  """
  most = whole("max_in_flight", max_in_flight, 1, 1024)
  return Connection(connecting.connect(target, **settings), most)
