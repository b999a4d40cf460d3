"""The pure engine: grpcio and protobuf, nothing compiled of our own."""

import dataclasses
from collections.abc import Sequence

from quantd.engines import bands, messages, outputs, streams
from quantd.engines.address import load_tls, load_token, parse_target
from quantd.engines.engine import (
  Buffer,
  Cancellation,
  Into,
  Progress,
  Reply,
  Settings,
)
from quantd.engines.exchange import Exchange, Limit, Metadata, Traffic
from quantd.engines.limits import Learner, Limits
from quantd.engines.messages import Asked
from quantd.engines.overlap import apart
from quantd.engines.reducing import Reduction
from quantd.errors import Cancelled, Error, Invalid, TooLarge, Unimplemented

# Bytes of one message: kMaxMessageBytes, kMaxRequestHeadBytes and
# kMaxReplyPayloadBytes of proto/limits.h.
_LARGEST_PAYLOAD = (2 << 30) - (64 << 10) - (256 << 10) - (4 << 20) // 8 * 10
_LARGEST_REPLY = (1 << 31) - (10 << 20)


class Engine:
  """See `quantd.engines.engine.Engine`."""

  name = "grpc"
  takes_device = False

  def __init__(self, settings: Settings) -> None:
    """Checks the settings, and connects to nothing."""
    if settings.target.partition(":")[0] == "local":
      raise Invalid.of(
        "target",
        "an address: local devices are the native engine's",
        settings.target,
      )
    if settings.memory_socket is not None:
      raise Invalid.of(
        "memory_socket",
        "none: shared memory is the native engine's",
        settings.memory_socket,
      )
    if settings.busy_poll > 0:
      raise Invalid.of(
        "busy_poll",
        "0: looking for answers is the native engine's",
        str(settings.busy_poll),
      )
    parse_target(settings.target)
    load_tls(settings)
    load_token(settings)
    self._settings = settings
    self._traffic = Traffic(settings)
    self._way = "unix" if settings.target.startswith("unix:") else "tcp"
    # Payloads of one message that no server has refused for their size.
    self._largest = dict.fromkeys(outputs.REQUESTS, _LARGEST_PAYLOAD)
    self._limits = Learner()

  def call(
    self,
    method: str,
    header: bytes,
    payload: Sequence[Buffer],
    into: Into,
    timeout: float | None,
    cancel: Cancellation | None,
    progress: Progress | None = None,
    traceparent: str | None = None,
    priority: str = "normal",
  ) -> Reply:
    """See `quantd.engines.engine.Engine.call`."""
    limit = Limit.of(
      self._settings.deadline if timeout is None else timeout,
      _metadata(traceparent, priority),
    )

    def one(asked: Asked, stop: Cancellation | None) -> Reply:
      return self._one(asked, limit, stop)

    asked = Asked(method, header, payload, into)
    whole = bands.cut(asked, self._settings.band_bytes)
    meeting = None
    if whole is not None and whole.needs_amax:
      whole, meeting = self._as_served(whole, limit, cancel)
    if whole is None:
      reply = one(asked, cancel)
      if progress is not None:
        progress(asked.nbytes, asked.nbytes)
      return reply
    # One band is written while another is read.
    asked = asked._replace(payload=[apart(b, into) for b in payload])
    at_once = self._traffic.life().pool.size * self._settings.channels
    if meeting is None:
      whole = dataclasses.replace(whole, asked=asked)
      return bands.run(whole, at_once, one, cancel, progress)

    def reduced(
      asked: Asked, reduction: Reduction, stop: Cancellation
    ) -> Reply | None:
      return self._reduced(asked, reduction, limit, stop)

    meeting = dataclasses.replace(meeting, asked=asked)
    return bands.meet(meeting, at_once, one, reduced, cancel, progress)

  def _as_served(
    self, whole: bands.Banded, limit: Limit, cancel: Cancellation | None
  ) -> tuple[bands.Banded | None, bands.Banded | None]:
    """A call whose amax is to be found, as its server completes it.

    Returns:
      It, or None where that cannot be learned; and in bands that meet, where
      all of them have room at once.
    """
    known = self._learn(limit, cancel)
    if whole.may_estimate:
      if known is None:
        return None, None
      if known.estimate:
        whole = whole.estimated(known.estimate)
    meeting = whole.meeting()
    if known is None or meeting is None:
      return whole, None
    fits = len(meeting.bands) <= known.reduced_at_once(meeting.held)
    return whole, meeting if fits else None

  def _learn(self, limit: Limit, cancel: Cancellation | None) -> Limits | None:
    asked = Asked("GetServerInfo", b"", [], {})
    return self._limits.learn(lambda: self._by_message(asked, limit, cancel))

  def _one(
    self, asked: Asked, limit: Limit, cancel: Cancellation | None
  ) -> Reply:
    """One call, or one for a band."""
    if asked.method not in self._largest:
      return self._by_message(asked, limit, cancel)
    size = asked.nbytes
    start = self._settings.stream_from
    if (
      (start is not None and size >= start)
      or size > self._largest[asked.method]
      or self._reply_is_large(asked)
    ):
      return self._by_stream(asked, limit, cancel)
    try:
      return self._by_message(asked, limit, cancel)
    except TooLarge as refused:
      if size == 0 or refused.field != "request":
        raise
      # The payload was not read. The next one goes straight that way.
      self._largest[asked.method] = size - 1
      try:
        return self._by_stream(asked, limit, cancel)
      except Unimplemented:
        # A server that has no streams says what the message was refused for.
        raise refused from None

  def _by_message(
    self, asked: Asked, limit: Limit, cancel: Cancellation | None
  ) -> Reply:
    exchange = Exchange(self._traffic, limit, cancel)
    return messages.call(asked, exchange, self._way)

  def _by_stream(
    self, asked: Asked, limit: Limit, cancel: Cancellation | None
  ) -> Reply:
    # It may be sent again when some of the reply has come.
    asked = asked._replace(
      payload=[apart(b, asked.into) for b in asked.payload]
    )
    exchange = Exchange(self._traffic, limit, cancel)
    return streams.call(asked, exchange, self._way)

  def _reduced(
    self,
    asked: Asked,
    reduction: Reduction,
    limit: Limit,
    stop: Cancellation,
  ) -> Reply | None:
    """See `quantd.engines.bands.meeting.Reduced`."""
    exchange = Exchange(self._traffic, limit, stop)
    try:
      return streams.call(asked, exchange, self._way, reduction)
    except Cancelled:
      raise
    except Error as failed:
      unknown = isinstance(failed, Unimplemented) or (
        isinstance(failed, Invalid) and failed.field == "request"
      )
      if reduction.found or unknown:
        return None
      raise

  def _reply_is_large(self, asked: Asked) -> bool:
    """Whether no message can hold it."""
    if asked.nbytes * outputs.MOST_GROWTH <= _LARGEST_REPLY:
      return False
    request = outputs.REQUESTS[asked.method].FromString(asked.header)
    specs = outputs.specs_of(request) or []
    return outputs.end_of(outputs.laid_out(specs)) > _LARGEST_REPLY

  def memory(self, nbytes: int) -> Buffer:
    """See `quantd.engines.engine.Engine.memory`: ordinary memory."""
    return bytearray(nbytes)

  def close(self) -> None:
    """See `quantd.engines.engine.Engine.close`."""
    self._traffic.close()


def _metadata(traceparent: str | None, priority: str) -> Metadata:
  """What servers are told of a call beside its request."""
  found = []
  if traceparent is not None:
    found.append(("traceparent", traceparent))
  if priority != "normal":
    found.append(("quantd-priority", priority))
  return found
