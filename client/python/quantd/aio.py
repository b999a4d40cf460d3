"""The same connection, with coroutines.

    q = quantd.aio.connect("127.0.0.1:50151")
    t = await q.quantize(x, "nvfp4")

Calls run on threads, which wait for the network and hold no lock of the
interpreter meanwhile. A task that is cancelled cancels its call. A function in
`progress=` is called by these threads, not by the loop.
"""

import asyncio
import functools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

from quantd.calls import connecting
from quantd.calls import connection as _connection
from quantd.engines.engine import Cancellation
from quantd.results import Maxima, Plan, ServerInfo
from quantd.tensors.tensor import QuantizedTensor
from quantd.values import whole
from quantd.words import Word

__all__ = ["Connection", "connect"]

T = TypeVar("T")


class Connection:
  """What `quantd.Connection` is, with coroutines; made by `connect`."""

  def __init__(
    self, connection: _connection.Connection, max_in_flight: int
  ) -> None:
    """Wraps a connection; so many calls are under way at once at most."""
    #: The connection underneath, which threads may use meanwhile.
    self.sync = connection
    self._max_in_flight = max_in_flight
    self._threads: ThreadPoolExecutor | None = None

  @property
  def target(self) -> str:
    """Where its servers are."""
    return self.sync.target

  @property
  def engine(self) -> str:
    """Which engine it has: "grpc" or "native"."""
    return self.sync.engine

  async def _run(
    self, call: Callable[..., T], *args: Any, **keywords: Any
  ) -> T:
    if self._threads is None:
      self._threads = ThreadPoolExecutor(self._max_in_flight, "quantd")
    cancel = keywords.get("cancel")
    if cancel is None:
      cancel = keywords["cancel"] = Cancellation()
    loop = asyncio.get_running_loop()
    work = functools.partial(call, *args, **keywords)
    try:
      return await loop.run_in_executor(self._threads, work)
    except asyncio.CancelledError:
      cancel.cancel()
      raise

  @property
  def takes_device(self) -> bool:
    """See `quantd.Connection.takes_device`."""
    return self.sync.takes_device

  async def empty(
    self, shape: Any, dtype: str = "bf16", *, like: Any = None
  ) -> Any:
    """See `quantd.Connection.empty`."""
    return self.sync.empty(shape, dtype, like=like)

  async def quantize(
    self, x: Any, format: Word = "nvfp4", **keywords: Any
  ) -> QuantizedTensor:
    """See `quantd.Connection.quantize`."""
    return await self._run(self.sync.quantize, x, format, **keywords)

  async def quantize_all(
    self, tensors: Mapping[str, Any], format: Word = "nvfp4", **keywords: Any
  ) -> dict[str, QuantizedTensor]:
    """See `quantd.Connection.quantize_all`; it counts as one call here."""
    return await self._run(self.sync.quantize_all, tensors, format, **keywords)

  async def dequantize(
    self, t: QuantizedTensor, dtype: str | None = None, **keywords: Any
  ) -> Any:
    """See `quantd.Connection.dequantize`."""
    return await self._run(self.sync.dequantize, t, dtype, **keywords)

  async def amax(self, x: Any, **keywords: Any) -> Maxima:
    """See `quantd.Connection.amax`."""
    return await self._run(self.sync.amax, x, **keywords)

  async def apply_rht(self, x: Any, **keywords: Any) -> Any:
    """See `quantd.Connection.apply_rht`."""
    return await self._run(self.sync.apply_rht, x, **keywords)

  async def plan(
    self, shape: Any, format: Word = "nvfp4", **keywords: Any
  ) -> Plan:
    """See `quantd.Connection.plan`."""
    return await self._run(self.sync.plan, shape, format, **keywords)

  async def info(self, **keywords: Any) -> ServerInfo:
    """See `quantd.Connection.info`."""
    return await self._run(self.sync.info, **keywords)

  async def close(self) -> None:
    """Cancels what is under way and lets go of connections."""
    self.sync.close()
    threads, self._threads = self._threads, None
    if threads is not None:
      await asyncio.get_running_loop().run_in_executor(None, threads.shutdown)

  async def __aenter__(self) -> Self:
    """Itself; `close` is called at the end."""
    return self

  async def __aexit__(self, *_: object) -> None:
    """Closes it."""
    await self.close()

  def __reduce__(self) -> tuple[Any, ...]:
    """Pickles as its settings."""
    return (Connection, (self.sync, self._max_in_flight))

  def __repr__(self) -> str:
    """Where it leads."""
    return f"aio.{self.sync!r}"


def connect(
  target: str, *, max_in_flight: int = 8, **settings: Any
) -> Connection:
  """A connection; takes what `quantd.connect` takes.

  Args:
    target: Where its servers are.
    max_in_flight: Calls at once; the next ones wait their turn.
    **settings: Of `quantd.connect`.

  Returns:
    The connection, which connects by its first call.

  Raises:
    quantd.Invalid: An argument is no good.
  """
  most = whole("max_in_flight", max_in_flight, 1, 1024)
  return Connection(connecting.connect(target, **settings), most)
