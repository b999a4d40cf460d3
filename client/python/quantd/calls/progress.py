"""Progress of a call, reported to a function or shown with tqdm."""

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from quantd.engines.engine import Cancellation, Progress
from quantd.errors import Invalid
from quantd.values import shown

# True shows a bar if tqdm is installed. A function is called with the bytes of
# the input that are done, and the total.
Wanted = bool | Callable[[int, int], object]

_telling = threading.local()


def inside() -> bool:
  """Returns whether this thread is running a progress function."""
  return getattr(_telling, "depth", 0) > 0


def function_of(
  wanted: Any, total: int, title: str, unit: str = "B"
) -> tuple[Progress | None, Callable[[], object]]:
  """Returns the progress function, if any, and one that closes its bar."""
  if isinstance(wanted, (bool, np.bool_)):
    return _bar(total, title, unit) if wanted else (None, _nothing)
  if callable(wanted):
    return wanted, _nothing
  expected = "True, False or a function of the bytes done and the total"
  raise Invalid.of("progress", expected, shown(wanted))


def _nothing() -> None:
  """Does nothing."""


def _bar(
  total: int, title: str, unit: str
) -> tuple[Progress | None, Callable[[], object]]:
  try:
    from tqdm.auto import tqdm
  except ImportError:
    warnings.warn(
      "progress=True has no effect: tqdm is not installed", stacklevel=2
    )
    return None, _nothing
  bar = tqdm(total=total, unit=unit, unit_scale=True, desc=title)

  last = 0

  def tell(done: int, total: int) -> None:
    nonlocal last
    bar.total = total
    bar.update(done - last)
    last = done

  return tell, bar.close


class _Report:
  """Reports a call's progress, which never decreases, until a failure."""

  def __init__(self, function: Progress, stop: Cancellation) -> None:
    self._function = function
    self._stop = stop
    self._last = -1
    self.raised: BaseException | None = None

  def __call__(self, done: int, total: int) -> None:
    # A repeated attempt, for example after a signal, starts at zero again.
    if self.raised is not None or done <= self._last:
      return
    self._last = done
    _telling.depth = getattr(_telling, "depth", 0) + 1
    try:
      self._function(done, total)
    except BaseException as error:  # noqa: BLE001 Raised by the caller's thread.
      self.raised = error
      self._stop.cancel()
    finally:
      _telling.depth -= 1


@contextlib.contextmanager
def telling(
  wanted: Any, total: int, title: str, cancel: Cancellation | None
) -> Iterator[tuple[Progress | None, Cancellation | None]]:
  """Yields the progress function and the cancellation for an engine's call.

  An exception of the progress function cancels the call, and is raised instead
  of the call's own exception.
  """
  function, close = function_of(wanted, total, title)
  if function is None:
    yield None, cancel
    return
  stop = Cancellation()
  forget = cancel.on_cancel(stop.cancel) if cancel is not None else None
  report = _Report(function, stop)
  try:
    try:
      yield report, stop
    except Exception:
      if report.raised is None:
        raise
    if report.raised is not None:
      raise report.raised
  finally:
    if forget is not None:
      forget()
    close()
