"""The servers of a connection, and the choice of one for each call.

Each server has one channel. A call goes to the healthy server with the fewest
bytes in flight; among equals, to the one picked least recently. A name that
resolves to several servers counts as one server, and gRPC balances its calls.
"""

import ctypes
import os
import threading
import time
import weakref
from typing import Any

import grpc

from quantd.engines.address import (
  is_loopback,
  load_tls,
  load_token,
  parse_target,
)
from quantd.engines.engine import Cancellation, Settings
from quantd.engines.retry import (
  DEADLINE,
  DEVICE_FAULT,
  RESOURCE_EXHAUSTED,
  UNAVAILABLE,
  Failure,
)
from quantd.errors import Forked

# How long a server is avoided after a lost connection or a fault, in seconds.
_AFTER_LOSS = 1.0
_AFTER_FAULT = 5.0

# The process that first used gRPC. gRPC's threads do not survive a fork.
_begun_in: int | None = None
_channels: "weakref.WeakSet[Any]" = weakref.WeakSet()


def _keep_channels() -> None:
  """Leaks channels in a forked child: freeing one would wait for threads."""
  for channel in list(_channels):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(channel))


os.register_at_fork(after_in_child=_keep_channels)


def check_fork() -> None:
  """Raises `quantd.Forked` if gRPC's threads are in another process."""
  if _begun_in not in (None, os.getpid()):
    raise Forked(
      "this process was forked from one that had called a server, and gRPC's "
      'threads do not survive a fork: start processes with "spawn" or '
      '"forkserver", or make the first call after the fork'
    )


class Server:
  """One server. The lock of `Servers` guards its state."""

  def __init__(self, address: str) -> None:
    """Does not connect yet."""
    self.address = address
    # Whether it answered the last call.
    self.heard = False
    self.bytes_under_way = 0
    # The number of this server's last pick, counted over all servers.
    self.last_pick = 0
    self.avoid_until = 0.0  # after it was busy, or refused or failed a call
    self.said = ""  # why it is avoided
    self.channel: Any = None

  def report(self, failure: Failure | None, now: float) -> None:
    """Records how a call ended."""
    self.heard = failure is None or failure.is_answer
    if failure is None:
      self.avoid_until, self.said = 0.0, ""
      return
    pause, said = None, failure.message
    if failure.code == UNAVAILABLE:
      pause = _AFTER_LOSS
    elif failure.code == RESOURCE_EXHAUSTED:
      pause = failure.delay
    elif failure.reason == DEVICE_FAULT:
      pause = _AFTER_FAULT
    elif failure.code == DEADLINE and failure.detail is None:
      pause, said = _AFTER_FAULT, "it did not answer in time"
    if pause is not None:
      self.avoid_until, self.said = now + pause, said


class Servers:
  """All servers of a connection. Thread-safe."""

  def __init__(self, settings: Settings) -> None:
    """Does not connect yet.

    Raises:
      quantd.Invalid: The settings are invalid.
    """
    self._settings = settings
    self._all = [Server(place) for place in parse_target(settings.target)]
    load_tls(settings)
    token = load_token(settings)
    self.metadata = (
      [] if token is None else [("authorization", f"Bearer {token}")]
    )
    # Cancelled when the connection is closed.
    self.closing = Cancellation()
    self._lock = threading.Lock()
    self._credentials: Any = None
    self._picks = 0

  def __len__(self) -> int:
    """Returns the number of servers."""
    return len(self._all)

  def pick(self, size: int, tried: set[Server]) -> Server:
    """Picks the server for a call of `size` bytes, and adds it to `tried`."""
    with self._lock:
      now = time.monotonic()
      best = min(
        (s for s in self._all if s not in tried),
        key=lambda s: (s.avoid_until > now, s.bytes_under_way, s.last_pick),
      )
      self._picks += 1
      best.last_pick = self._picks
      best.bytes_under_way += size
      tried.add(best)
      return best

  def put_back(self, server: Server, size: int, answer: object) -> None:
    """Records how a call ended: a Failure, a reply, or None if unknown."""
    with self._lock:
      server.bytes_under_way -= size
      if answer is not None:
        failure = answer if isinstance(answer, Failure) else None
        server.report(failure, time.monotonic())

  def has_another(self, tried: set[Server], well: bool = True) -> bool:
    """Returns whether there is an untried server; if `well`, one not avoided."""
    with self._lock:
      now = time.monotonic()
      return any(
        s not in tried and not (well and s.avoid_until > now) for s in self._all
      )

  def account(self) -> str:
    """Lists the last error of each server, for messages."""
    with self._lock:
      return "; ".join(
        f"{s.address}: {s.said or 'it has reported no error'}"
        for s in self._all[:8]
      )

  def channel(self, server: Server) -> Any:
    """Returns the server's channel. It connects with its first call."""
    global _begun_in
    with self._lock:
      if server.channel is None:
        if self.closing.cancelled:
          raise ValueError("the connection was closed")
        _begun_in = os.getpid()
        server.channel = self._open(server.address)
        _channels.add(server.channel)
      return server.channel

  def _open(self, address: str) -> Any:
    options: list[tuple[str, Any]] = [
      ("grpc.max_receive_message_length", -1),
      ("grpc.max_send_message_length", -1),
      # By default, all channels of a process to one target share a connection.
      ("grpc.use_local_subchannel_pool", 1),
      # calling.py retries calls: gRPC does not retry those above 256 KiB, and
      # copies smaller ones.
      ("grpc.enable_retries", 0),
      ("grpc.service_config_disable_resolution", 1),
      ("grpc.service_config", '{"loadBalancingConfig":[{"round_robin":{}}]}'),
      ("grpc.initial_reconnect_backoff_ms", 100),
      ("grpc.min_reconnect_backoff_ms", 5000),
      ("grpc.max_reconnect_backoff_ms", 5000),
      # With a keepalive time, gRPC also ends a write that the peer does not
      # receive.
      ("grpc.keepalive_time_ms", 300_000),
      (
        "grpc.keepalive_timeout_ms",
        int(self._settings.dead_peer_timeout * 1000),
      ),
      ("grpc.primary_user_agent", "quantd-python"),
    ]
    if is_loopback(address):
      # A proxy named by the environment cannot reach loopback addresses.
      options.append(("grpc.enable_http_proxy", 0))
    tls = self._settings.tls
    if tls is None:
      return grpc.insecure_channel(address, options)
    if tls.server_name is not None:
      options.append(("grpc.ssl_target_name_override", tls.server_name))
    if self._credentials is None:
      pem = load_tls(self._settings) or (None, None, None)
      self._credentials = grpc.ssl_channel_credentials(*pem)
    return grpc.secure_channel(address, self._credentials, options)

  def close(self) -> None:
    """Cancels all calls, including later ones, and closes the channels."""
    self.closing.cancel()
    if _begun_in not in (None, os.getpid()):
      return
    with self._lock:
      channels = [s.channel for s in self._all if s.channel is not None]
      for server in self._all:
        server.channel = None
    for channel in channels:
      channel.close()
