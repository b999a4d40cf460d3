"""Makes one call as calls for its bands, several at a time."""

import itertools
import threading
from collections.abc import Callable

import numpy as np

from quantd import quantd_pb2 as pb
from quantd.engines import outputs
from quantd.engines.bands import amaxes, cutting
from quantd.engines.bands.cutting import Band, Banded
from quantd.engines.bands.joining import Join, parts_of
from quantd.engines.engine import Cancellation, Progress, Reply
from quantd.engines.messages import Asked
from quantd.errors import Cancelled, Error

# Beyond so many threads nothing is won.
_MOST_AT_ONCE = 64

# One call as it is, by one message or in chunks.
One = Callable[[Asked, Cancellation | None], Reply]


class _Teller:
  """Tells how much is done, of rows that are gone through once or twice."""

  def __init__(
    self, progress: Progress | None, rows: int, nbytes: int
  ) -> None:
    self._progress = progress
    self._rows = rows
    self._all = nbytes
    self._lock = threading.Lock()
    self._done = 0

  def add(self, band: Band) -> None:
    if self._progress is None:
      return
    with self._lock:
      self._done += band.rows
      self._progress(self._all * self._done // self._rows, self._all)


def run(
  whole: Banded,
  at_once: int,
  one: One,
  cancel: Cancellation | None,
  progress: Progress | None,
) -> Reply:
  """Makes it, `at_once` bands at a time.

  Where an amax must be known first and none is given, all bands are sent twice;
  where it turns out to be NaN or Inf, which no request can give, the call is
  made as one. The first band that fails ends the others.

  Raises:
    quantd.Error: Of a band, whose rows it says.
  """
  passes = 2 if whole.needs_amax else 1
  teller = _Teller(progress, whole.rows * passes, whole.asked.nbytes)
  found: amaxes.Found | None = None
  sent = 0
  if whole.needs_amax:
    found, sent = _find_amax(whole, at_once, one, cancel, teller)
    if not found.finite:
      reply = one(whole.asked, cancel)
      if progress is not None:
        progress(whole.asked.nbytes, whole.asked.nbytes)
      return reply
  join = Join(whole)

  def work(band: Band, stop: Cancellation) -> None:
    request = cutting.message_for(whole, band, found)
    asked = Asked(
      whole.asked.method,
      request.SerializeToString(),
      cutting.payload_of(whole, band),
      join.places(band),
    )
    join.add(band, request, one(asked, stop))
    teller.add(band)

  _for_each(whole.bands, at_once, work, cancel)
  return join.take(sent)


def _find_amax(
  whole: Banded,
  at_once: int,
  one: One,
  cancel: Cancellation | None,
  teller: _Teller,
) -> tuple[amaxes.Found, int]:
  """The amax of the whole, and how many calls it took."""
  o = whole.request.options
  found = amaxes.Found(o, whole.rows, whole.cols)
  lock = threading.Lock()
  sent = 0

  def work(band: Band, stop: Cancellation) -> None:
    nonlocal sent
    request = cutting.amax_message_for(whole, band)
    asked = Asked(
      "RhtAmax",
      request.SerializeToString(),
      cutting.payload_of(whole, band),
      {},
    )
    reply = one(asked, stop)
    answer = pb.RhtAmaxReply.FromString(reply.header)
    parts = parts_of(request, answer, reply)
    with lock:
      sent += reply.attempts
      for side in found.values:
        kind = outputs.number_of(amaxes.kind_of(o, side))
        found.add(side, band.row, np.frombuffer(parts[kind], np.float32))
    teller.add(band)

  _for_each(whole.bands, at_once, work, cancel)
  found.settle()
  return found, sent


class _Threads:
  """Works on bands until all are done or one has failed."""

  def __init__(
    self,
    bands: list[Band],
    work: Callable[[Band, Cancellation], None],
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
        with self._lock:
          if self.failed is None:
            self.failed = _with_rows(error, self._bands[at])
        self._stop.cancel()


def _with_rows(error: Exception, band: Band) -> Exception:
  if isinstance(error, Error) and not isinstance(error, Cancelled):
    last = band.row + band.rows - 1
    error.say(f"rows {band.row} to {last}: {error.message}")
  return error


def _for_each(
  bands: list[Band],
  at_once: int,
  work: Callable[[Band, Cancellation], None],
  cancel: Cancellation | None,
) -> None:
  """Works on all bands, some by this thread; the first error ends the others."""
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
        break  # the machine has no more threads: fewer do
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
