"""How a connection is made."""

import os
from typing import Any

from quantd.calls.connection import Connection
from quantd.engines.engine import Retry, Settings, Tls
from quantd.errors import Invalid

__all__ = ["connect"]


def connect(
  target: str,
  *,
  engine: str | None = None,
  tls: bool | Tls = False,
  token: str | None = None,
  token_file: str | None = None,
  deadline: float = 30.0,
  channels: int = 2,
  retry: Retry | None = None,
  dead_peer_timeout: float = 20.0,
) -> Connection:
  """A connection, which connects by its first call.

  Args:
    target: "host:port", several with commas between them, "unix:/path", or, of
      the native engine, "local", "local:cpu", "local:cuda:N". A call goes to
      the server with the fewest bytes under way, and where that one drains, is
      busy or lost, at once to another one.
    engine: "grpc", "native"; None: the native one where it is installed.
    tls: True: encrypt, and trust whom the system trusts; or a `Tls`.
    token: A bearer token. It does not travel in plain text to another machine.
    token_file: A file of one line with the token.
    deadline: Seconds of a call that brings no timeout.
    channels: Connections to each server.
    retry: When a failed call is sent again.
    dead_peer_timeout: Seconds after which a connection is given up whose other
      side takes no byte.

  Returns:
    The connection.

  Raises:
    quantd.Invalid: An argument is no good.

  Example:
    >>> connect("127.0.0.1:50151", engine="grpc")
    Connection('127.0.0.1:50151', engine='grpc')
  """
  _check_types(target, tls, token, token_file, retry)
  if tls is True:
    tls = Tls()
  settings = Settings(
    target=target,
    tls=tls or None,
    token=token,
    token_file=token_file,
    deadline=deadline,
    channels=channels,
    retry=retry or Retry(),
    dead_peer_timeout=dead_peer_timeout,
  )
  _check_settings(settings)
  return Connection(settings, engine)


def _check_types(
  target: Any, tls: Any, token: Any, token_file: Any, retry: Any
) -> None:
  for field, value, kinds, expected in (
    ("target", target, str, "an address or several, as text"),
    ("tls", tls, (bool, Tls), "True, False or a quantd.Tls"),
    ("token", token, (str, type(None)), "text"),
    ("token_file", token_file, (str, os.PathLike, type(None)), "a path"),
    ("retry", retry, (Retry, type(None)), "a quantd.Retry"),
  ):
    if not isinstance(value, kinds):
      # Never the value: it may be a secret.
      raise Invalid.of(field, expected, type(value).__name__)


def _check_settings(s: Settings) -> None:
  year = 3600 * 24 * 365.0
  for field, value, low, high in (
    ("channels", s.channels, 1, 64),
    ("deadline", s.deadline, 0.001, year),
    ("dead_peer_timeout", s.dead_peer_timeout, 0.1, 3600),
    ("retry.max_attempts", s.retry.max_attempts, 1, 1000),
    ("retry.initial_backoff", s.retry.initial_backoff, 0.001, 3600),
    ("retry.max_backoff", s.retry.max_backoff, s.retry.initial_backoff, 3600),
    ("retry.multiplier", s.retry.multiplier, 1, 100),
  ):
    whole = field in ("channels", "retry.max_attempts")
    kinds = int if whole else (int, float)
    if (
      not isinstance(value, kinds)
      or isinstance(value, bool)
      or not low <= value <= high
    ):
      expected = f"{low} to {high}" + (", whole" if whole else "")
      raise Invalid.of(field, expected, repr(value)[:80])
