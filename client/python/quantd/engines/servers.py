"""The servers of a connection, and the choice of one for each call.

Each has one channel. Among the healthy ones, the one with the fewest bytes in
flight is used; among equals, the one picked least recently. A name that
resolves to several servers counts as one here; gRPC distributes its calls.
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

# Seconds for which a server is avoided.
_AFTER_LOSS = 1.0
_AFTER_FAULT = 5.0

# The process in which gRPC was first used; its threads do not survive a fork.
_begun_in: int | None = None
_channels: "weakref.WeakSet[Any]" = weakref.WeakSet()


def _keep_channels() -> None:
  """Keeps channels alive in a forked child: ending one would wait for threads."""
  for channel in list(_channels):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(channel))


os.register_at_fork(after_in_child=_keep_channels)


def check_fork() -> None:
  """Raises `quantd.Forked` if gRPC's threads are not in this process."""
  if _begun_in not in (None, os.getpid()):
    raise Forked(
      "this process was forked from one that had called a server, and gRPC's "
      'threads do not survive that: start processes by "spawn" or '
      '"forkserver", or let the first call come after the fork'
    )


class Server:
  """One server. Its state is guarded by the lock of `Servers`."""

  def __init__(self, address: str) -> None:
    """Does not connect yet."""
    self.address = address
    # Whether it answered the last call.
    self.heard = False
    self.bytes_under_way = 0
    # Increasing number; the smallest was picked least recently.
    self.last_pick = 0
    self.avoid_until = 0.0  # it was busy, refused or failed a call
    self.said = ""  # why
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
    """The number of servers."""
    return len(self._all)

  def pick(self, size: int, tried: set[Server]) -> Server:
    """Picks the server for a call of that size, and adds it to `tried`."""
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
    """Ends a call by its Failure, its reply, or None if unknown."""
    with self._lock:
      server.bytes_under_way -= size
      if answer is not None:
        failure = answer if isinstance(answer, Failure) else None
        server.report(failure, time.monotonic())

  def has_another(self, tried: set[Server], well: bool = True) -> bool:
    """Whether there is a healthy server that was not tried."""
    with self._lock:
      now = time.monotonic()
      return any(
        s not in tried and not (well and s.avoid_until > now) for s in self._all
      )

  def account(self) -> str:
    """The problem with each server, for people."""
    with self._lock:
      return "; ".join(
        f"{s.address}: {s.said or 'nothing is known against it'}"
        for s in self._all[:8]
      )

  def channel(self, server: Server) -> Any:
    """The server's channel, which connects with its first call."""
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
      # Otherwise all channels of a process to one target share one connection.
      ("grpc.use_local_subchannel_pool", 1),
      # We retry ourselves: gRPC gives up above 256 KiB and keeps a copy below.
      ("grpc.enable_retries", 0),
      ("grpc.service_config_disable_resolution", 1),
      ("grpc.service_config", '{"loadBalancingConfig":[{"round_robin":{}}]}'),
      ("grpc.initial_reconnect_backoff_ms", 100),
      ("grpc.min_reconnect_backoff_ms", 5000),
      ("grpc.max_reconnect_backoff_ms", 5000),
      # Setting a keepalive time makes gRPC end a write that the other side
      # never takes.
      ("grpc.keepalive_time_ms", 300_000),
      (
        "grpc.keepalive_timeout_ms",
        int(self._settings.dead_peer_timeout * 1000),
      ),
      ("grpc.primary_user_agent", "quantd-python"),
    ]
    if is_loopback(address):
      # A proxy named in the environment cannot reach this machine's loopback.
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
    """Ends all calls, now and later."""
    self.closing.cancel()
    if _begun_in not in (None, os.getpid()):
      return
    with self._lock:
      channels = [s.channel for s in self._all if s.channel is not None]
      for server in self._all:
        server.channel = None
    for channel in channels:
      channel.close()
