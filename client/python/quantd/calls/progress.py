"""Progress of a call, reported to a function or shown with tqdm."""

import contextlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from quantd.engines.engine import Cancellation, Progress
from quantd.errors import Invalid
from quantd.values import shown

# True: a bar, if tqdm is installed. A function: called with the bytes of the
# input that are done, and the total.
Wanted = bool | Callable[[int, int], object]

_telling = threading.local()


def inside() -> bool:
  """Whether this thread is in a progress function."""
  return getattr(_telling, "depth", 0) > 0


def function_of(
  wanted: Any, total: int, title: str, unit: str = "B"
) -> tuple[Progress | None, Callable[[], object]]:
  """Returns the progress function, and a function that closes it."""
  if isinstance(wanted, (bool, np.bool_)):
    return _bar(total, title, unit) if wanted else (None, _nothing)
  if callable(wanted):
    return wanted, _nothing
  expected = "True, False or a function of the bytes done and of all"
  raise Invalid.of("progress", expected, shown(wanted))


def _nothing() -> None:
  """Closes what needs no closing."""


def _bar(
  total: int, title: str, unit: str
) -> tuple[Progress | None, Callable[[], object]]:
  try:
    from tqdm.auto import tqdm
  except ImportError:
    warnings.warn(
      "progress=True shows nothing: tqdm is not installed",
      stacklevel=_frames_of_package() + 1,
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


def _frames_of_package() -> int:
  """Number of stack frames below the line that called the package."""
  count, frame = 0, sys._getframe(1)
  while frame.f_back is not None:
    name = frame.f_globals.get("__name__", "")
    if not name.startswith(("quantd.", "contextlib")):
      break
    count, frame = count + 1, frame.f_back
  return count


class _Report:
  """Reports one call: never less than before, and not after a failure."""

  def __init__(self, function: Progress, stop: Cancellation) -> None:
    self._function = function
    self._stop = stop
    self._last = -1
    self.raised: BaseException | None = None

  def __call__(self, done: int, total: int) -> None:
    # A repeated attempt, such as after a signal, starts at zero again.
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
  """Wraps a call of an engine: yields its progress function and cancellation.

  An exception of the progress function ends the call and replaces its own.
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
