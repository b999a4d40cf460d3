"""Errors, as exceptions that a program can distinguish.

Every failed call raises an `Error`. An invalid argument raises `Invalid`,
whether this package or the server detects it. `Invalid` is also a `ValueError`.
"""

from quantd import quantd_pb2 as pb

# Names of gRPC's status codes, by number.
CODES = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
]


class Error(Exception):
  """A call that failed.

  Attributes:
    code: The name of the gRPC status, such as "UNAVAILABLE".
    message: A description of the problem.
    request_id: The call's id in the server's log. "" if no server answered.
    attempts: How often the call was sent. 0 if it was refused before sending.
  """

  code = "UNKNOWN"

  def __init__(
    self,
    message: str,
    *,
    code: str | None = None,
    request_id: str = "",
    attempts: int = 0,
  ) -> None:
    """Creates an error. Without `code`, it has the code of its class."""
    super().__init__(message)
    self.message = message
    self.code = code or type(self).code
    self.request_id = request_id
    self.attempts = attempts

  def say(self, message: str) -> None:
    """Replaces the message. Only for the package itself."""
    self.message = message
    self.args = (message,)

  def __str__(self) -> str:
    """Returns the message, the request id and the number of attempts."""
    more = []
    if self.request_id:
      more.append(f"request id {self.request_id}")
    if self.attempts > 1:
      more.append(f"sent {self.attempts} times")
    return f"{self.message} ({', '.join(more)})" if more else self.message


class Invalid(Error, ValueError):
  """An argument is invalid. Repeating the call cannot succeed.

  Attributes:
    field: The argument, or its path in quantd.proto, such as "rht.sign_mask".
    expected: What would be valid.
    got: What was given.
  """

  code = "INVALID_ARGUMENT"
  field = ""
  expected = ""
  got = ""

  @classmethod
  def of(cls, field: str, expected: str, got: str) -> "Invalid":
    """Creates the error for a field that this package refuses.

    Example:
      >>> Invalid.of("usage", "rowwise or both", "sideways").field
      'usage'
    """
    error = cls(f"{field}: expected {expected}, got {got}")
    error.field, error.expected, error.got = field, expected, got
    return error


class TooLarge(Error, ValueError):
  """The request is larger than the server accepts.

  Attributes:
    limit: The limit in bytes.
    field: The part that is too large. "request" stands for the whole request.
  """

  code = "INVALID_ARGUMENT"
  limit = 0
  field = ""


class Unavailable(Error):
  """No server could be reached within `Retry.max_attempts` or the deadline."""

  code = "UNAVAILABLE"


class Busy(Error):
  """The server had no memory for the call until the call's deadline.

  Attributes:
    retry_delay: Seconds after which to retry. 0 if unknown.
  """

  code = "RESOURCE_EXHAUSTED"
  retry_delay = 0.0


class Draining(Unavailable):
  """The server is shutting down and accepts no more calls."""


class NoDevice(Unavailable):
  """The server has no healthy device."""


class DeviceFault(Error):
  """A device failed during the call. The server's log has details."""

  code = "INTERNAL"


class DeadlineExceeded(Error, TimeoutError):
  """The call did not end before its deadline."""

  code = "DEADLINE_EXCEEDED"


class Cancelled(Error):
  """The call's `Cancellation` was cancelled, or the connection was closed."""

  code = "CANCELLED"


class Unauthenticated(Error):
  """The server requires a token and did not receive a valid one."""

  code = "UNAUTHENTICATED"


class Unimplemented(Error):
  """The server, or this build of the package, lacks a feature."""

  code = "UNIMPLEMENTED"


class Forked(Error):
  """This process was forked from one that had used this engine.

  Threads do not survive a fork, so the engine cannot continue. Start processes
  with "spawn" or "forkserver", or make the first call after the fork.
  """

  code = "FAILED_PRECONDITION"


_OF_CODE: dict[str, type[Error]] = {
  kind.code: kind
  for kind in (
    Cancelled,
    Invalid,
    DeadlineExceeded,
    Unimplemented,
    DeviceFault,
    Unavailable,
    Unauthenticated,
  )
}


def from_status(
  code: int,
  message: str,
  detail: bytes | None = None,
  *,
  request_id: str = "",
  attempts: int = 0,
) -> Error:
  """Creates the exception for gRPC's status number.

  `detail` is the serialized ErrorDetail of the status, if it has one.

  Example:
    >>> from_status(14, "gone")
    Unavailable('gone')
  """
  name = CODES[code] if 0 <= code < len(CODES) else "UNKNOWN"
  known = pb.ErrorDetail()
  if detail:
    known.ParseFromString(detail)
  kind = _OF_CODE.get(name, Error)
  if detail:
    kind = {
      pb.ErrorDetail.REASON_INVALID_FIELD: Invalid,
      pb.ErrorDetail.REASON_MALFORMED: Invalid,
      pb.ErrorDetail.REASON_TOO_LARGE: TooLarge,
      pb.ErrorDetail.REASON_BUSY: Busy,
      pb.ErrorDetail.REASON_DRAINING: Draining,
      pb.ErrorDetail.REASON_NO_DEVICE: NoDevice,
      pb.ErrorDetail.REASON_DEVICE_FAULT: DeviceFault,
      pb.ErrorDetail.REASON_DEADLINE: DeadlineExceeded,
      pb.ErrorDetail.REASON_CANCELLED: Cancelled,
    }.get(known.reason, kind)
  error = kind(message, code=name, request_id=request_id, attempts=attempts)
  if isinstance(error, Invalid):
    error.field, error.expected, error.got = (
      known.field,
      known.expected,
      known.got,
    )
  elif isinstance(error, TooLarge):
    error.limit, error.field = known.limit, known.field
  elif isinstance(error, Busy):
    error.retry_delay = known.retry_delay_ms / 1000
  return error
