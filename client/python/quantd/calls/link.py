"""What a connection is before it knows any call: settings and an engine."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from quantd.engines import open_engine
from quantd.engines.engine import Cancellation, Engine, Reply, Settings
from quantd.errors import Invalid
from quantd.tensors import arrays
from quantd.values import shown

# Seconds: no call takes longer.
YEAR = 365 * 24 * 3600.0


def _is_time(value: Any) -> bool:
  if not isinstance(value, (int, float, np.number)) or isinstance(value, bool):
    return False
  return bool(0 < value <= YEAR)


def check_cancel(cancel: Any) -> None:
  """Refuses what is no Cancellation, as an Event of threading."""
  if cancel is not None and not isinstance(cancel, Cancellation):
    raise Invalid.of("cancel", "a quantd.Cancellation", type(cancel).__name__)


class Link:
  """Carries requests, and lives as a connection does."""

  def __init__(self, settings: Settings, engine: str | None = None) -> None:
    """Connects to nothing yet: the first call does."""
    self._settings = settings
    self._engine_name = engine
    self._engine: Engine = open_engine(settings, engine)

  @property
  def target(self) -> str:
    """Where its servers are."""
    return self._settings.target

  @property
  def engine(self) -> str:
    """Which engine it has: "grpc" or "native"."""
    return self._engine.name

  def _call(
    self,
    method: str,
    header: bytes,
    payload: Sequence[Any],
    into: Mapping[int, Any],
    timeout: float | None,
    cancel: Cancellation | None,
  ) -> Reply:
    if timeout is not None:
      if not _is_time(timeout):
        raise Invalid.of(
          "timeout", "seconds above 0, up to a year", shown(timeout)
        )
      # A deadline in numpy's fp32 would be minutes off.
      timeout = float(timeout)
    check_cancel(cancel)
    return self._engine.call(method, header, payload, into, timeout, cancel)

  def _values(
    self,
    method: str,
    request: Any,
    payload: Sequence[Any],
    kind: int,
    word: str,
    shape: tuple[int, ...],
    out: Any,
    like: Any,
    timeout: float | None,
    cancel: Cancellation | None,
  ) -> Any:
    """A call whose one part is written into an array, which is returned."""
    library = arrays.library_for(like)
    if out is not None and like is not None:
      raise Invalid.of("like", "none beside out=, which is given back", "one")
    if out is None:
      made = arrays.empty(library, word, shape)
    else:
      made = out
    target = arrays.writable(made, word, shape, "out")
    header = request.SerializeToString()
    self._call(method, header, payload, {kind: target}, timeout, cancel)
    return arrays.to_jax(made) if library == "jax" and out is None else made

  # --- its life -------------------------------------------------------------

  def close(self) -> None:
    """Cancels what is under way and lets go of connections. Idempotent."""
    self._engine.close()

  def __enter__(self) -> Self:
    """Itself; `close` is called at the end."""
    return self

  def __exit__(self, *_: object) -> None:
    """Closes it."""
    self.close()

  def __reduce__(self) -> tuple[Any, ...]:
    """Pickles as its settings, a token in them included."""
    return (type(self), (self._settings, self._engine_name))

  def __repr__(self) -> str:
    """Where it leads."""
    return f"Connection({self.target!r}, engine={self.engine!r})"
