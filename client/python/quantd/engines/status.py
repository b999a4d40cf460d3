"""What gRPC says of a call that failed, as a Failure."""

from typing import Any

from quantd import quantd_pb2 as pb
from quantd.engines import frames
from quantd.engines.retry import RESOURCE_EXHAUSTED, UNAVAILABLE, Failure

CANCELLED = 1
_DETAIL_URL = "type.googleapis.com/quantd.v1.ErrorDetail"


def failure_of(error: Any) -> Failure:
  """That of an error of grpcio's."""
  code = error.code().value[0]
  trailers = {key: value for key, value in error.trailing_metadata() or ()}
  raw = trailers.get("grpc-status-details-bin")
  detail = _detail_of(raw) if raw else None
  request_id = str(trailers.get("quantd-request-id", ""))
  message = error.details() or ""
  if code == CANCELLED and detail is None and not request_id:
    # gRPC turns calls away like this while a server shuts down. A caller who
    # cancelled does not ask for the reason.
    text = "the call was ended on the way, or by a server that shuts down"
    return Failure(UNAVAILABLE, text, delay=0.0)
  known = pb.ErrorDetail()
  if detail is not None:
    known.ParseFromString(detail)
  delay: float | None = None
  if code in (UNAVAILABLE, RESOURCE_EXHAUSTED):
    delay = known.retry_delay_ms / 1000
    pushback = trailers.get("grpc-retry-pushback-ms")
    if pushback is not None:
      # As gRPC's retry design says: what is no number means "do not retry".
      text = str(pushback)
      delay = int(text) / 1000 if text.isdigit() else None
  return Failure(code, message, detail, known.reason, request_id, delay)


def _detail_of(status: bytes) -> bytes | None:
  """The ErrorDetail in a serialized google.rpc.Status."""
  from google.protobuf import any_pb2, message

  # A Status is code = 1, message = 2, details = 3; only the last is of use.
  data = memoryview(status)
  at = 0
  try:
    while at < len(data):
      tag, at = frames.read_varint(data, at)
      size, at = frames.read_varint(data, at)
      if tag & 7 == 0:
        continue
      if tag == 3 << 3 | 2:
        detail = any_pb2.Any.FromString(bytes(data[at : at + size]))
        if detail.type_url == _DETAIL_URL:
          return bytes(detail.value)
      at += size
  except (IndexError, ValueError, message.DecodeError):
    return None
  return None
