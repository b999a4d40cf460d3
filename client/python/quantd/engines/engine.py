"""The boundary between the package and what carries its calls.

An engine carries messages and bytes, and knows no option: what to ask and what
the answer means is shared Python above this line. Both engines raise what
`quantd.errors.from_status` makes of a status, and nothing else of their own.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

# Whatever has the buffer protocol and is C-contiguous, for which Python 3.11
# has no type; or, of an engine that takes them, quantd.tensors.device's bytes.
Buffer = Any

# The number of each kind of part is TensorKind of quantd.proto.
Into = Mapping[int, Buffer]

# The least that Settings.band_bytes may be, but for 0.
LEAST_BAND = 256 << 10

# Told how many bytes of the input are done, of how many; of a call that ends
# well in the end all of them. By one thread at a time, not always the caller's.
Progress = Callable[[int, int], object]


class Reply(NamedTuple):
  """What a call brought back."""

  # The reply message, serialized, without its payload.
  header: bytes
  # The bytes of each of the header's `tensors`, in their order. Those that the
  # caller gave a buffer for are that buffer.
  parts: Sequence[memoryview]
  # Times the call was sent; of one in bands, all calls that its bands were.
  attempts: int
  # The way that it went: "tcp", "unix", "shared", "cuda" or "local".
  transport: str
  # In how many bands it went; 1: as one call.
  bands: int = 1
  # Whether it, or any of its bands, went in chunks.
  streamed: bool = False
  # The id of the call where the header does not say it: equal calls then have
  # equal headers.
  request_id: str = ""


class Cancellation:
  """A way to stop calls from another thread.

  Once cancelled it stays so, and every later call that carries it fails at
  once with `quantd.Cancelled`. May be used by any thread, and by many calls.

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
    """Cancels every call that carries this; does not wait for them."""
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
    ca: Who signs servers; None: whom the system trusts.
    cert: Shown to a server that asks for one; together with `key` or not at
      all.
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
    max_attempts: Times a call is tried where servers cannot be reached or are
      draining; 1 switches retries off. A busy server that says when to come
      back is asked again until the deadline.
    initial_backoff: The first pause, less up to half of it by chance.
    max_backoff: The longest pause.
    multiplier: How much longer than the last one each pause is.
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
      the server with the fewest bytes under way, and where that one drains, is
      busy or lost, at once to another one.
    tls: None: plain text.
    token: A bearer token, or None.
    token_file: A file of one line with the token, or None; not both.
    deadline: Seconds that a call may take, retries included, if it brings no
      timeout of its own.
    channels: Connections to each server. The pure engine has one, whatever this
      says.
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
  """What carries calls. Used by any number of threads at once."""

  # "grpc" or "native".
  name: str
  # Whether it takes bytes in a GPU's memory.
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
    """Makes one call, retries included; in bands where the settings say so.

    `header` is the request without its payload, which `payload` is back to back:
    where the header has refs, each is one of these buffers. They are not
    written to, and not looked at after the call. `into` has a buffer of the
    exact size for kinds of parts, which may lie over the payload; after an
    error their content is anything. `progress` must not raise, and must not
    close the engine, which would wait for the call.

    Raises:
      quantd.Error: As `from_status` makes it.
    """
    ...

  def memory(self, nbytes: int) -> Buffer:
    """Bytes of the host, writable, that calls take where they lie if they can.

    Their content is what they were used for last.

    Raises:
      quantd.Error: The server shares no more, or nobody listens there.
    """
    ...

  def close(self) -> None:
    """Cancels what is under way and lets go of connections. Idempotent."""
    ...
