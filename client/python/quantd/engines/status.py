"""Converts gRPC's report of a failed call to a Failure."""

from typing import Any, NamedTuple

from quantd import quantd_pb2 as pb
from quantd.engines import frames
from quantd.engines.retry import (
  CANCELLED,
  RESOURCE_EXHAUSTED,
  UNAVAILABLE,
  Failure,
)

UNKNOWN = 2
_DETAIL_URL = "type.googleapis.com/quantd.v1.ErrorDetail"


def failure_of(error: Any) -> Failure:
  """Converts an error of grpcio."""
  code = error.code().value[0]
  trailers = {key: value for key, value in error.trailing_metadata() or ()}
  raw = trailers.get("grpc-status-details-bin")
  said = _read(raw) if raw else _Status()
  detail = said.detail
  request_id = str(trailers.get("quantd-request-id", ""))
  message = error.details() or ""
  if code == CANCELLED and detail is not None:
    # A proxy reset the stream because the server answered before the whole
    # request had arrived. The server's answer is in the trailers.
    code, message = said.code, said.message
  # gRPC reports "Stream removed" for some closed connections.
  removed = code == UNKNOWN and message == "Stream removed"
  if (code == CANCELLED or removed) and detail is None and not request_id:
    # gRPC refuses calls with this status while a server shuts down. If the
    # caller cancelled the call, another error is raised instead.
    text = "the connection failed during the call, or the server shut down"
    return Failure(UNAVAILABLE, text, delay=0.0)
  known = pb.ErrorDetail()
  if detail is not None:
    known.ParseFromString(detail)
  delay: float | None = None
  if code in (UNAVAILABLE, RESOURCE_EXHAUSTED):
    delay = known.retry_delay_ms / 1000
    pushback = trailers.get("grpc-retry-pushback-ms")
    if pushback is not None:
      # By gRPC's retry design, anything but a number means "do not retry".
      text = str(pushback)
      delay = int(text) / 1000 if text.isdigit() else None
  return Failure(code, message, detail, known.reason, request_id, delay)


class _Status(NamedTuple):
  """The fields of a google.rpc.Status that are used here."""

  code: int = UNKNOWN
  message: str = ""
  detail: bytes | None = None  # the first ErrorDetail


def _read(status: bytes) -> _Status:
  """Parses as much of a serialized status as is well-formed."""
  from google.protobuf import any_pb2, message

  # The fields of the status are code = 1, message = 2, details = 3.
  data = memoryview(status)
  at = 0
  code, text = UNKNOWN, ""
  try:
    while at < len(data):
      tag, at = frames.read_varint(data, at)
      size, at = frames.read_varint(data, at)
      if tag & 7 == 0:
        # An error must not have the code OK.
        code = size if tag == 1 << 3 and 1 <= size <= 16 else code
        continue
      field = bytes(data[at : at + size])
      at += size
      if tag == 2 << 3 | 2:
        text = field.decode(errors="replace")
      elif tag == 3 << 3 | 2:
        detail = any_pb2.Any.FromString(field)
        if detail.type_url == _DETAIL_URL:
          return _Status(code, text, bytes(detail.value))
  except (IndexError, ValueError, message.DecodeError):
    pass
  return _Status(code, text)
