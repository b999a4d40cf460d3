"""Works on the bands of a call, several at a time."""

import itertools
import threading
from collections.abc import Callable

from quantd.engines.bands.cutting import Band
from quantd.engines.engine import Cancellation, Progress
from quantd.engines.retry import RESOURCE_EXHAUSTED
from quantd.errors import Cancelled, Error, from_status

# Beyond so many threads nothing is won.
_MOST_AT_ONCE = 64

Work = Callable[[Band, Cancellation], None]


class Teller:
  """Tells how much is done, of rows that are gone through once or twice."""

  def __init__(self, progress: Progress | None, rows: int, nbytes: int) -> None:
    """Of `rows` in all, each as often as it is gone through."""
    self._progress = progress
    self._rows = rows
    self._all = nbytes
    self._lock = threading.Lock()
    self._done = 0

  def add(self, band: Band) -> None:
    """Once more through these."""
    if self._progress is None:
      return
    with self._lock:
      self._done += band.rows
      self._progress(self._all * self._done // self._rows, self._all)


class _Threads:
  """Works on bands until all are done or one has failed."""

  def __init__(
    self,
    bands: list[Band],
    work: Work,
    stop: Cancellation,
  ) -> None:
    self._bands = bands
    self._work = work
    self._stop = stop
    self._next = itertools.count()
    self._lock = threading.Lock()
    self.failed: BaseException | None = None

  def loop(self) -> None:
    """Of each thread; never raises but what a signal's handler does."""
    while not self._stop.cancelled:
      at = next(self._next)
      if at >= len(self._bands):
        return
      try:
        self._work(self._bands[at], self._stop)
      except Exception as error:  # noqa: BLE001 Raised again by the caller.
        self.fail(_with_rows(error, self._bands[at]))

  def fail(self, error: BaseException) -> None:
    """Ends all; the first error is what is told."""
    with self._lock:
      if self.failed is None:
        self.failed = error
    self._stop.cancel()


def _with_rows(error: Exception, band: Band) -> Exception:
  if isinstance(error, Error) and not isinstance(error, Cancelled):
    last = band.row + band.rows - 1
    error.say(f"rows {band.row} to {last}: {error.message}")
  return error


def for_each(
  bands: list[Band],
  at_once: int,
  work: Work,
  cancel: Cancellation | None,
  meet: bool = False,
) -> None:
  """Works on all bands, some by this thread; the first error ends the others.

  With `meet` they wait for each other: all of `at_once` have a thread, or none.
  """
  stop = Cancellation()
  forget = cancel.on_cancel(stop.cancel) if cancel is not None else None
  threads = _Threads(bands, work, stop)
  others: list[threading.Thread] = []
  try:
    for _ in range(1, min(at_once, _MOST_AT_ONCE, len(bands))):
      thread = threading.Thread(target=threads.loop, name="quantd", daemon=True)
      try:
        thread.start()
      except RuntimeError:
        # The machine has no more threads: fewer do.
        if meet:
          text = "the machine has no more threads"
          threads.fail(from_status(RESOURCE_EXHAUSTED, text))
        break
      others.append(thread)
    threads.loop()
    for thread in others:
      thread.join()
  except BaseException:
    # A KeyboardInterrupt ends them all.
    stop.cancel()
    raise
  finally:
    if forget is not None:
      forget()
    for thread in others:
      thread.join()
  if threads.failed is not None:
    raise threads.failed
  if stop.cancelled:
    raise Cancelled("cancelled by the caller")
