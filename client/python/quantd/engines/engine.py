"""The interface between the package and the engines that carry its calls.

An engine carries messages and bytes, and knows no options: the shared code
above it makes requests and interprets replies. Apart from errors made by
`quantd.errors.from_status` an engine raises nothing of its own.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

# An object with the buffer protocol that is C-contiguous, for which Python 3.11
# has no type; or DeviceBytes of quantd.tensors.device, if the engine accepts
# them.
Buffer = Any

# Keys are TensorKind numbers of quantd.proto.
Into = Mapping[int, Buffer]

# The smallest Settings.band_bytes other than 0.
LEAST_BAND = 256 << 10

# Called with the bytes of the input that are done, and the total; a successful
# call ends with all done. Called by one thread at a time, not always the
# caller's.
Progress = Callable[[int, int], object]


class Reply(NamedTuple):
  """The result of a call."""

  # The serialized reply without its payload.
  header: bytes
  # The bytes of each of the header's `tensors`, in order. If the caller gave a
  # buffer for a part, it is that buffer.
  parts: Sequence[memoryview]
  # Number of times the call was sent; in bands, the sum over the bands.
  attempts: int
  # The transport used: "tcp", "unix", "shared", "cuda" or "local".
  transport: str
  # Number of bands; 1: a single call.
  bands: int = 1
  # Whether it, or one of its bands, was sent in chunks.
  streamed: bool = False
  # The id of the call if the header does not hold it, so that equal calls have
  # equal headers.
  request_id: str = ""


class Cancellation:
  """Stops calls from another thread.

  Once cancelled it stays so, and every later call that uses it fails at once
  with `quantd.Cancelled`. May be used by any thread, and by many calls.

  Example:
    >>> stop = Cancellation()
    >>> stop.cancelled
    False
    >>> stop.cancel()
    >>> stop.cancelled
    True
  """

  def __init__(self) -> None:
    """Makes one that is not cancelled."""
    self._lock = threading.Lock()
    self._cancelled = False
    self._actions: dict[int, Callable[[], object]] = {}
    self._next = 0

  @property
  def cancelled(self) -> bool:
    """Whether `cancel` was called."""
    return self._cancelled

  def cancel(self) -> None:
    """Cancels every call that uses this; does not wait for them."""
    with self._lock:
      self._cancelled = True
      actions = list(self._actions.values())
      self._actions.clear()
    for action in actions:
      action()

  def __repr__(self) -> str:
    """Whether it was cancelled."""
    return f"Cancellation(cancelled={self._cancelled})"

  def on_cancel(self, action: Callable[[], object]) -> Callable[[], None]:
    """Runs `action` once when cancelled, at once if it already is.

    Returns:
      A function that takes the action back.
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


@dataclass(frozen=True)
class Tls:
  """How a connection is encrypted; paths are PEM files, read when connecting.

  Attributes:
    ca: The authorities that sign servers; None: those the system trusts.
    cert: Shown to a server that asks for one; requires `key`.
    key: The private key of `cert`.
    server_name: The name that the server's certificate must have; None: the
      one dialled.
  """

  ca: str | None = None
  cert: str | None = None
  key: str | None = None
  server_name: str | None = None


@dataclass(frozen=True)
class Retry:
  """When a failed call is sent again; times are seconds.

  Attributes:
    max_attempts: Attempts of a call if servers cannot be reached or are
      draining; 1 switches retries off. A busy server that says when to come
      back is asked again until the deadline.
    initial_backoff: The first pause, less a random part of up to half of it.
    max_backoff: The longest pause.
    multiplier: Growth of each pause over the one before.
  """

  max_attempts: int = 4
  initial_backoff: float = 0.05
  max_backoff: float = 2.0
  multiplier: float = 2.0


@dataclass(frozen=True)
class Settings:
  """All that makes a connection; it pickles as this.

  Attributes:
    target: "host:port", several with commas between them, "unix:/path", or, of
      the native engine, "local", "local:cpu", "local:cuda:N". A call goes to
      the server with the fewest bytes in flight and, if that one drains, is
      busy or lost, at once to another one.
    tls: None: plain text.
    token: A bearer token, or None.
    token_file: A file of one line with the token, or None; not both.
    deadline: Seconds that a call may take, retries included, if it has no
      timeout of its own.
    channels: Connections to each server. The pure engine ignores it and has
      one.
    retry: When a failed call is sent again.
    dead_peer_timeout: Seconds after which a connection is given up whose other
      side takes no byte.
    memory_socket: Of a server on this machine, its --memory-socket: arrays of
      `Connection.empty` then lie in memory that it shares, and neither they nor
      what is made of them is sent. Of the native engine.
    busy_poll: Seconds for which the thread of a call looks for its answer, on a
      core of its own, before it sleeps: to be woken takes an idle core 20 to
      200 us. Of the native engine, and not of calls in chunks; a server's
      --busy-poll-us is its own half of it.
    band_bytes: Calls that carry more than this each way, and than 4 MiB, are
      cut into bands of rows of about so many bytes, which go over all
      connections to all servers. The bytes are those of one call. Of the native
      engine. 0: none is cut; else at least 262144. The package's README says
      which calls are not cut.
    stream_from: Payloads of so many bytes travel in chunks, 0: all of them;
      None: what is larger than one message, or than the server takes as one, up
      to the server's memory; by the pure engine from 256 MiB on.
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
  """Carries calls. May be used by any number of threads at once."""

  # "grpc" or "native".
  name: str
  # Whether it accepts bytes in GPU memory.
  takes_device: bool

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
    """Makes a call, retries included; in bands if the settings say so.

    `header` is the request without its payload, and `payload` the buffers that
    make up the payload: if the header has refs, each is one of these buffers.
    They are not written to, and not accessed after the call. `into` has a
    buffer of the exact size for kinds of parts; these may overlap the payload,
    and their content is undefined after an error. `progress` must not raise,
    and must not close the engine, which would wait for the call.

    Raises:
      quantd.Error: Made by `from_status`.
    """
    ...

  def memory(self, nbytes: int) -> Buffer:
    """Writable host memory that calls use in place, if possible.

    Its content is unspecified.

    Raises:
      quantd.Error: The server shares no more, or none listens.
    """
    ...

  def close(self) -> None:
    """Cancels calls in flight and closes connections. Idempotent."""
    ...
