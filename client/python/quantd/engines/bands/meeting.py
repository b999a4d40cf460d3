"""Makes one call as streams for its bands, which meet in one amax.

Each band is sent once: when the last has told its maxima, all are answered.
"""

import threading
from collections.abc import Callable

from quantd import quantd_pb2 as pb
from quantd.engines.bands import amaxes, cutting
from quantd.engines.bands.calls import One, asked_of, find_maxima, run_whole
from quantd.engines.bands.cutting import Band, Banded
from quantd.engines.bands.joining import Join
from quantd.engines.bands.working import Teller, for_each
from quantd.engines.engine import Cancellation, Progress, Reply
from quantd.engines.messages import Asked
from quantd.engines.reducing import Maxima, Reduction
from quantd.errors import Cancelled

# One call in chunks that takes part in a reduction; None: it has to be made
# again with the amax given, because its server knows no such streams, or ended
# this one after it had told its maxima.
Reduced = Callable[[Asked, Reduction, Cancellation], Reply | None]


class _CannotBeGiven(Exception):
  """The amax is NaN or Inf."""


class _Turns:
  """So many bands may be on their way to a server at a time.

  Who waits for a turn waits for one that has it, which ends when all of its
  band is there; a band that fails ends all.
  """

  def __init__(self, at_once: int) -> None:
    self._changed = threading.Condition()
    self._free = max(at_once, 1)

  def _wake(self) -> None:
    with self._changed:
      self._changed.notify_all()

  def take(self, stop: Cancellation) -> None:
    forget = stop.on_cancel(self._wake)
    try:
      with self._changed:
        self._changed.wait_for(lambda: self._free > 0 or stop.cancelled)
        self._free -= 1
    finally:
      forget()
    if stop.cancelled:
      raise _stopped()

  def give(self) -> None:
    with self._changed:
      self._free += 1
      self._changed.notify()


class _Meeting:
  """Where the bands meet."""

  def __init__(self, whole: Banded, turns: _Turns, teller: Teller) -> None:
    self._whole = whole
    self._turns = turns
    self._teller = teller
    self._lock = threading.Lock()
    self._told = 0
    o = whole.request.options
    self._found = amaxes.Found(o, whole.rows, whole.cols)
    self._parts = {band: self._part(band) for band in whole.bands}

  def _part(self, band: Band) -> Reduction:
    def tell(maxima: Maxima) -> None:
      self._add(band, maxima)

    return Reduction(self._found.counts(band.rows), tell)

  def part(self, band: Band) -> Reduction:
    return self._parts[band]

  def request_for(self, band: Band) -> pb.QuantizeRequest:
    """What an answered band is: a call with the amax given."""
    request: pb.QuantizeRequest = cutting.message_for(
      self._whole, band, self._found
    )
    return request

  def _add(self, band: Band, maxima: Maxima) -> None:
    self._turns.give()
    self._teller.add(band)
    with self._lock:
      self._found.add(band.row, maxima)
      self._told += 1
      if self._told < len(self._parts):
        return
    self._found.settle()
    if not self._found.finite:
      raise _CannotBeGiven
    for other, part in self._parts.items():
      part.answer(self._found.given_to(*other))


def _stopped() -> Cancelled:
  """Of a band that waits; why it ends another one tells, or the caller knows."""
  return Cancelled("cancelled by the caller")


def meet(
  whole: Banded,
  at_once: int,
  one: One,
  reduced: Reduced,
  cancel: Cancellation | None,
  progress: Progress | None,
) -> Reply:
  """Makes it, of a call whose amax must be known first.

  Where that turns out to be NaN or Inf, which no request can give, the call is
  made as one. The first band that fails ends the others.

  Args:
    whole: The call, in bands that have room at a server all at once.
    at_once: How many are on their way at a time.
    one: Makes a band's call that is no stream.
    reduced: Makes one that is.
    cancel: Stops the call.
    progress: Told how far it is.

  Raises:
    quantd.Error: Of a band, whose rows it says.
  """
  teller = Teller(progress, whole.rows * 2, whole.asked.nbytes)
  turns = _Turns(at_once)
  meeting = _Meeting(whole, turns, teller)
  join = Join(whole)

  def work(band: Band, stop: Cancellation) -> None:
    turns.take(stop)
    part = meeting.part(band)
    asked = asked_of(
      whole, band, cutting.reducing_message_for(whole, band), join
    )
    reply = reduced(asked, part, stop)
    if reply is None:
      if not part.found:
        part.find(find_maxima(whole, band, one, stop)[0])
      _await(part, stop)
    request = meeting.request_for(band)
    if reply is None:
      header = request.SerializeToString()
      reply = one(asked._replace(header=header), stop)
    join.add(band, request, reply)
    teller.add(band)

  try:
    for_each(whole.bands, len(whole.bands), work, cancel, meet=True)
  except _CannotBeGiven:
    return run_whole(whole, one, cancel, progress)
  return join.take(0)


def _await(part: Reduction, stop: Cancellation) -> None:
  # The others have the call's deadline, so that this needs none: they tell
  # their maxima by then, or fail.
  forget = stop.on_cancel(part.wake)
  try:
    if part.wait(lambda: stop.cancelled) is None:
      raise _stopped()
  finally:
    forget()
