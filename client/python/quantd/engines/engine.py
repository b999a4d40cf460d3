"""The interface between the package and the engines that carry its calls.

An engine carries messages and bytes, and does not know any options. The code
above it, which both engines share, builds requests and interprets replies. If a
call fails, the engine raises an error made by `quantd.errors.from_status`.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

# A C-contiguous object with the buffer protocol, for which Python 3.11 has no
# type. If the engine accepts GPU memory, also DeviceBytes of
# quantd.tensors.device.
Buffer = Any

# Buffers for outputs. Keys are TensorKind numbers of quantd.proto.
Into = Mapping[int, Buffer]

# The smallest Settings.band_bytes other than 0.
LEAST_BAND = 256 << 10

# A function that is called with the bytes of the input that are done, and the
# total. If the request succeeds, they are equal in the end. One thread at a
# time calls it, not always the caller's.
Progress = Callable[[int, int], object]


class Reply(NamedTuple):
  """The result of a call."""

  # The serialized reply without its payload.
  header: bytes
  # The bytes of each of the header's `tensors`, in order. For a part in `into`,
  # it is a view of that buffer.
  parts: Sequence[memoryview]
  # How often the request was sent. For a call in bands, the sum over all bands.
  attempts: int
  # The transport used: "tcp", "unix", "shared", "cuda" or "local".
  transport: str
  # The number of bands. 1 for a single call.
  bands: int = 1
  # Whether the call, or one of its bands, was sent in chunks.
  streamed: bool = False
  # The id of the request if the engine leaves it out of the header, so that
  # equal calls have equal headers.
  request_id: str = ""


class Cancellation:
  """Cancels calls from another thread.

  A cancellation is final: every later call that uses it fails at once with
  `quantd.Cancelled`. Any thread and many calls may use one object.

  Example:
    >>> stop = Cancellation()
    >>> stop.cancelled
    False
    >>> stop.cancel()
    >>> stop.cancelled
    True
  """

  def __init__(self) -> None:
    """Makes a cancellation that is not cancelled."""
    self._lock = threading.Lock()
    self._cancelled = False
    self._actions: dict[int, Callable[[], object]] = {}
    self._next = 0

  @property
  def cancelled(self) -> bool:
    """Whether `cancel` was called."""
    return self._cancelled

  def cancel(self) -> None:
    """Cancels every call that uses this. Does not wait for them."""
    with self._lock:
      self._cancelled = True
      actions = list(self._actions.values())
      self._actions.clear()
    for action in actions:
      action()

  def __repr__(self) -> str:
    """Shows whether it was cancelled."""
    return f"Cancellation(cancelled={self._cancelled})"

  def on_cancel(self, action: Callable[[], object]) -> Callable[[], None]:
    """Runs `action` once when cancelled; at once if it already is.

    Returns:
      A function that unregisters the action.
    """
    with self._lock:
      if not self._cancelled:
        key = self._next
        self._next += 1
        self._actions[key] = action

        def forget() -> None:
          with self._lock:
            self._actions.pop(key, None)

        return forget
    action()
    return lambda: None


class How(NamedTuple):
  """Options of a call that do not affect its result."""

  timeout: float | None = None
  cancel: Cancellation | None = None
  progress: Progress | None = None
  traceparent: str | None = None
  priority: str = "normal"


# A call with the connection's settings.
PLAIN = How()


@dataclass(frozen=True)
class Tls:
  """How a connection is encrypted. Paths are PEM files, read when connecting.

  Attributes:
    ca: The authorities that sign servers' certificates. None trusts the
      system's authorities.
    cert: The certificate for servers that ask for one. It requires `key`.
    key: The private key of `cert`.
    server_name: The name that the server's certificate must have. None expects
      the name in the target.
  """

  ca: str | None = None
  cert: str | None = None
  key: str | None = None
  server_name: str | None = None


@dataclass(frozen=True)
class Retry:
  """When a failed call is sent again. Times are in seconds.

  Attributes:
    max_attempts: Limit of attempts if servers cannot be reached or are
      draining. 1 turns retries off. A busy server that says when to retry is
      asked again until the deadline.
    initial_backoff: The first pause, minus a random part of up to half of it.
    max_backoff: The longest pause.
    multiplier: The factor from each pause to the next.
  """

  max_attempts: int = 4
  initial_backoff: float = 0.05
  max_backoff: float = 2.0
  multiplier: float = 2.0


@dataclass(frozen=True)
class Settings:
  """The settings of a connection, which are also its pickled form.

  They are the arguments of `quantd.connect`, whose help describes those that are
  not listed here.

  Attributes:
    target: "host:port", "unix:/path", or several separated by commas; with the
      native engine also "local", "local:cpu" or "local:cuda:N". A call goes to
      the server with the fewest bytes in flight. If that server is draining,
      busy or lost, the call goes to another one at once.
    deadline: Limit in seconds for a call without its own timeout, including
      retries.
    dead_peer_timeout: Seconds after which a connection is dropped if the peer
      receives nothing.
    memory_socket: The --memory-socket of a server on this machine. Arrays of
      `Connection.empty` then lie in memory shared with the server. Neither they
      nor their results are sent. Native engine only.
    busy_poll: Seconds for which a call's thread polls for its answer before it
      sleeps. Polling occupies a core, and saves the 20 to 200 us of waking the
      thread. Calls in chunks do not poll. Native engine only. The server has
      its own --busy-poll-us.
    band_bytes: A call that carries more than this, and more than 4 MiB, in one
      direction is cut into bands of rows of about this size. Bands use all
      connections to all servers. The result equals that of one call. 0 never
      cuts; otherwise at least 262144. Native engine only. The package's README
      lists calls that are not cut.
    stream_from: Payloads of at least this many bytes are sent in chunks; 0
      sends all in chunks. None does so only for payloads that exceed one
      message or the server's limit; with the engine "grpc", from 256 MiB.
  """

  target: str
  tls: Tls | None = None
  token: str | None = field(default=None, repr=False)
  token_file: str | None = None
  deadline: float = 30.0
  channels: int = 2
  retry: Retry = Retry()
  dead_peer_timeout: float = 20.0
  memory_socket: str | None = None
  busy_poll: float = 0.0
  band_bytes: int = 0
  stream_from: int | None = None


class Engine(Protocol):
  """Carries calls. Any number of threads may use it at once."""

  # "grpc" or "native".
  name: str
  # Whether `payload` and `into` may have GPU memory.
  takes_device: bool

  def call(
    self,
    method: str,
    header: bytes,
    payload: Sequence[Buffer],
    into: Into,
    how: How = PLAIN,
  ) -> Reply:
    """Makes a call with its retries; in bands if the settings say so.

    `header` is the request without its payload. `payload` is a list of buffers
    that form the payload together, one for each TensorRef in the header if it
    has some. They are not written to, and not accessed after the call. `into`
    has buffers of the exact size for parts, by kind. They may overlap the
    payload. Their content is undefined after an error. `how.progress` must not
    raise, and must not close the engine, which would wait for the call.

    Raises:
      quantd.Error: Made by `from_status`.
    """
    ...

  def memory(self, nbytes: int) -> Buffer:
    """Allocates writable host memory that calls use in place, if possible.

    Its content is unspecified.

    Raises:
      quantd.Error: The server cannot be reached or refuses to share more.
    """
    ...

  def close(self) -> None:
    """Cancels calls in flight and closes connections. Idempotent."""
    ...
