"""Makes one call as calls for its bands, several at a time."""

import threading
from collections.abc import Callable

import numpy as np

from quantd import quantd_pb2 as pb
from quantd.engines import outputs
from quantd.engines.bands import amaxes, cutting
from quantd.engines.bands.cutting import Band, Banded
from quantd.engines.bands.joining import Join, parts_of
from quantd.engines.bands.working import Teller, for_each
from quantd.engines.engine import Cancellation, Progress, Reply
from quantd.engines.messages import Asked
from quantd.tensors.arrays import Array

# One call as it is, by one message or in chunks.
One = Callable[[Asked, Cancellation | None], Reply]


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
  teller = Teller(progress, whole.rows * passes, whole.asked.nbytes)
  found: amaxes.Found | None = None
  sent = 0
  if whole.needs_amax:
    found, sent = _find_amax(whole, at_once, one, cancel, teller)
    if not found.finite:
      return run_whole(whole, one, cancel, progress)
  join = Join(whole)

  def work(band: Band, stop: Cancellation) -> None:
    request = cutting.message_for(whole, band, found)
    asked = asked_of(whole, band, request, join)
    join.add(band, request, one(asked, stop))
    teller.add(band)

  for_each(whole.bands, at_once, work, cancel)
  return join.take(sent)


def run_whole(
  whole: Banded,
  one: One,
  cancel: Cancellation | None,
  progress: Progress | None,
) -> Reply:
  """Makes it as one call after all."""
  reply = one(whole.asked, cancel)
  if progress is not None:
    progress(whole.asked.nbytes, whole.asked.nbytes)
  return reply


def asked_of(
  whole: Banded, band: Band, request: pb.QuantizeRequest, join: Join
) -> Asked:
  """The call for one band, which writes where it belongs."""
  return Asked(
    whole.asked.method,
    request.SerializeToString(),
    cutting.payload_of(whole, band),
    join.places(band),
  )


def find_maxima(
  whole: Banded, band: Band, one: One, stop: Cancellation
) -> tuple[dict[str, Array], int]:
  """What one band adds to the amax of the whole, and how many calls it took."""
  o = whole.request.options
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
  kinds = {
    side: outputs.number_of(amaxes.kind_of(o, side))
    for side in amaxes.SIDES
    if amaxes.has_copy(o, side)
  }
  return {
    side: np.frombuffer(parts[kind], np.float32) for side, kind in kinds.items()
  }, reply.attempts


def _find_amax(
  whole: Banded,
  at_once: int,
  one: One,
  cancel: Cancellation | None,
  teller: Teller,
) -> tuple[amaxes.Found, int]:
  """The amax of the whole, and how many calls it took."""
  found = amaxes.Found(whole.request.options, whole.rows, whole.cols)
  lock = threading.Lock()
  sent = 0

  def work(band: Band, stop: Cancellation) -> None:
    nonlocal sent
    maxima, attempts = find_maxima(whole, band, one, stop)
    with lock:
      sent += attempts
      found.add(band.row, maxima)
    teller.add(band)

  for_each(whole.bands, at_once, work, cancel)
  found.settle()
  return found, sent
