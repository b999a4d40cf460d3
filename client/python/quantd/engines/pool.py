"""The servers that a connection may call, and which one gets a call.

Every server has connections of its own here, and gRPC balances nothing: of
those with nothing against them the one with the fewest bytes under way is
taken, of equals the one that was longest not picked.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from quantd.engines.address import (
  Address,
  HostName,
  load_tls,
  load_token,
  parse_target,
)
from quantd.engines.engine import Settings
from quantd.engines.retry import UNAVAILABLE, Failure, Standing

# Seconds: how old what a name resolved to may be, and between look-ups for
# servers that were lost.
_STALE = 30.0
_LOST_AGAIN = 1.0
# For so long a channel without a connection is passed over for others.
_LOST_CHANNEL = 1.0


class Server:
  """One server and its channels, which are opened by its first call."""

  def __init__(
    self, address: Address, credentials: Any, settings: Settings
  ) -> None:
    """Opens nothing yet."""
    self.address = address
    self.standing = Standing()
    # Whether it answered the last call, through the channels that are open.
    self.heard = False
    self._credentials = credentials
    self._settings = settings
    self._lock = threading.Lock()
    self._channels: list[Any] = []
    self._calls: list[int] = []
    self._avoided: list[float] = []  # until when, by time.monotonic()
    self._heard: list[bool] = []

  @contextlib.contextmanager
  def connection(self) -> Iterator[Any]:
    """The channel with the fewest calls under way, for one call."""
    with self._lock:
      if not self._channels:
        self._channels = [self._open() for _ in range(self._settings.channels)]
        self._calls = [0] * len(self._channels)
        self._avoided = [0.0] * len(self._channels)
        self._heard = [False] * len(self._channels)
      at = self._least_busy()
      self._calls[at] += 1
      channel = self._channels[at]
    try:
      yield channel
    finally:
      with self._lock:
        if at < len(self._calls):
          self._calls[at] -= 1

  def report(self, channel: Any, answer: object) -> None:
    """How a call on a channel ended; `answer`: a Failure, or not."""
    failure = answer if isinstance(answer, Failure) else None
    with self._lock:
      if channel not in self._channels:
        return
      at = self._channels.index(channel)
      if failure is None or failure.is_answer:
        self._heard[at] = True
      elif failure.code == UNAVAILABLE:
        self._heard[at] = False
        self._avoided[at] = time.monotonic() + _LOST_CHANNEL

  def _least_busy(self) -> int:
    """Of channels that are as good the one with the fewest calls.

    One that cannot be connected always has those, and would get all calls;
    where there is such a one, others that were not heard of may be no better.
    """
    now = time.monotonic()
    some_are_lost = any(until > now for until in self._avoided)
    return min(
      range(len(self._channels)),
      key=lambda i: (
        some_are_lost and not self._heard[i],
        self._avoided[i] > now,
        self._calls[i],
      ),
    )

  def _open(self) -> Any:
    import grpc

    options: list[tuple[str, Any]] = [
      ("grpc.max_receive_message_length", -1),
      ("grpc.max_send_message_length", -1),
      # Else all channels of a process to one target share one connection.
      ("grpc.use_local_subchannel_pool", 1),
      # Retries are ours: gRPC's give up above 256 KiB and keep a copy below.
      ("grpc.enable_retries", 0),
      ("grpc.service_config_disable_resolution", 1),
      ("grpc.initial_reconnect_backoff_ms", 100),
      ("grpc.min_reconnect_backoff_ms", 5000),
      ("grpc.max_reconnect_backoff_ms", 5000),
      # Naming a keepalive time is what makes gRPC end a write that the other
      # side never takes.
      ("grpc.keepalive_time_ms", 300_000),
      (
        "grpc.keepalive_timeout_ms",
        int(self._settings.dead_peer_timeout * 1000),
      ),
      ("grpc.primary_user_agent", "quantd-python"),
    ]
    if self.address.authority:
      options.append(("grpc.default_authority", self.address.authority))
    if self.address.is_loopback:
      # A proxy named in the environment cannot reach this machine's loopback.
      options.append(("grpc.enable_http_proxy", 0))
    tls = self._settings.tls
    if tls is not None and tls.server_name is not None:
      options.append(("grpc.ssl_target_name_override", tls.server_name))
    if self._credentials is None:
      return grpc.insecure_channel(self.address.target, options)
    return grpc.secure_channel(self.address.target, self._credentials, options)

  def close(self) -> None:
    """Ends its calls with CANCELLED."""
    with self._lock:
      channels, self._channels = self._channels, []
      self._calls, self._avoided, self._heard = [], [], []
      self.heard = False
    for channel in channels:
      channel.close()


def _unsaid(server: Server) -> str:
  return "nothing is known against it" if server.heard else "no connection yet"


class Pool:
  """All servers of one connection, in one process. Thread-safe."""

  def __init__(self, settings: Settings) -> None:
    """Looks up and opens nothing yet."""
    self._settings = settings
    self._places = parse_target(settings.target)
    token = load_token(settings)
    self.metadata = (
      [] if token is None else [("authorization", f"Bearer {token}")]
    )
    self._lock = threading.Lock()
    self._servers: dict[Address, Server] = {}
    self._credentials: Any = None
    self._looked_up: float | None = None
    self._unresolved: list[str] = []
    self._picks = 0

  @property
  def size(self) -> int:
    """How many servers there are."""
    return max(len(self._servers), len(self._places))

  def _look_up(self, max_age: float) -> None:
    now = time.monotonic()
    if self._looked_up is not None:
      named = any(isinstance(p, HostName) for p in self._places)
      if not named or now - self._looked_up < max_age:
        return
    elif (tls := load_tls(self._settings)) is not None:
      import grpc

      self._credentials = grpc.ssl_channel_credentials(*tls)
    self._looked_up = now
    found: list[Address] = []
    self._unresolved = []
    for place in self._places:
      if isinstance(place, Address):
        found.append(place)
        continue
      try:
        found += place.resolve()
      except OSError as wrong:
        # A name that resolves no more keeps the addresses that it had.
        name = f"{place.host}:{place.port}"
        self._unresolved.append(
          f"{name}: the name does not resolve: {wrong.strerror}"
        )
        found += [a for a in self._servers if a.authority == name]
    self._servers = {
      a: self._servers.get(a) or Server(a, self._credentials, self._settings)
      for a in found
    }

  def pick(self, size: int, tried: set[Server]) -> Server | None:
    """The server for a call of so many bytes, which is added to `tried`."""
    with self._lock:
      self._look_up(_STALE)
      now = time.monotonic()
      left = [s for s in self._servers.values() if s not in tried]
      if not left:
        return None
      best = min(left, key=lambda s: s.standing.rank(now))
      self._picks += 1
      best.standing.last_pick = self._picks
      best.standing.bytes_under_way += size
      tried.add(best)
      return best

  def put_back(self, server: Server, size: int, answer: object) -> None:
    """Ends the call for which it was picked; `answer`: a Failure, or not."""
    failure = answer if isinstance(answer, Failure) else None
    with self._lock:
      server.standing.bytes_under_way -= size
      server.heard = failure is None or failure.is_answer
      if server.standing.report(failure, time.monotonic()):
        self._look_up(_LOST_AGAIN)

  def abandon(self, server: Server, size: int) -> None:
    """Ends it without a word of how the server did, as on a KeyboardInterrupt."""
    with self._lock:
      server.standing.bytes_under_way -= size

  def has_untried(self, tried: set[Server]) -> bool:
    """Whether there is one that was not tried, however it stands."""
    with self._lock:
      return any(s not in tried for s in self._servers.values())

  def has_another(self, tried: set[Server]) -> bool:
    """Whether there is one that was not tried, with nothing against it."""
    with self._lock:
      now = time.monotonic()
      return any(
        s not in tried and s.standing.avoid_until <= now
        for s in self._servers.values()
      )

  def account(self) -> str:
    """What is wrong with each server, for people."""
    with self._lock:
      lines = [
        f"{s.address.target}: {s.standing.said or _unsaid(s)}"
        for s in list(self._servers.values())[:8]
      ]
      lines += self._unresolved[:8]
    return "; ".join(lines)

  def close(self) -> None:
    """Closes every channel."""
    with self._lock:
      servers = list(self._servers.values())
    for server in servers:
      server.close()
