"""Makes connections."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, TypedDict

from quantd.calls.call_options import YEAR
from quantd.calls.connection import Connection
from quantd.engines.engine import LEAST_BAND, Retry, Settings, Tls
from quantd.errors import Invalid
from quantd.values import shown, whole, within

# The largest size in bytes.
_MOST = 2**63 - 1
# The default address of servers.
_HERE = "127.0.0.1:50151"

Path = str | os.PathLike[str]


class Keywords(TypedDict, total=False):
  """Settings of `connect` in addition to the target."""

  engine: str | None
  tls: bool | Tls
  token: str | None
  token_file: Path | None
  deadline: float
  channels: int
  retry: Retry | None
  dead_peer_timeout: float
  memory_socket: Path | None
  busy_poll: float
  band_bytes: int
  stream_from: int | None


def connect(
  target: str | None = None,
  *,
  engine: str | None = None,
  tls: bool | Tls = False,
  token: str | None = None,
  token_file: Path | None = None,
  deadline: float = 30.0,
  channels: int = 2,
  retry: Retry | None = None,
  dead_peer_timeout: float = 20.0,
  memory_socket: Path | None = None,
  busy_poll: float = 0.0,
  band_bytes: int = 0,
  stream_from: int | None = None,
) -> Connection:
  """Makes a connection. It connects with its first call.

  Args:
    target: "host:port", "unix:/path", several of them separated by commas, or
      "local". None uses QUANTD_SERVER, or else 127.0.0.1:50151, with the TLS,
      token and memory socket of quantctl's environment variables.
    engine: "native" or "grpc". None uses the native engine if installed.
    tls: True encrypts and trusts the system's authorities. Or a `quantd.Tls`.
    token: A bearer token. Without TLS it is never sent to another machine.
    token_file: A file with the token on one line.
    deadline: Limit in seconds for a call without a timeout.
    channels: Connections to each server. The engine "grpc" makes one.
    retry: When a failed call is sent again: a `quantd.Retry`.
    dead_peer_timeout: Seconds after which a silent connection is dropped.
    memory_socket: The server's --memory-socket, to share memory with it.
    busy_poll: Seconds, up to 0.1, to poll for an answer before sleeping.
    band_bytes: Larger calls are cut into bands of rows. 0 never cuts.
    stream_from: Tensors of at least this many bytes are sent in chunks. None
      sends chunks only if necessary.

  Returns:
    The connection. `help(quantd.engines.engine.Settings)` documents more.

  Raises:
    quantd.Invalid: A value is invalid.
    ImportError: The engine is not available.

  Example:
    >>> quantd.connect("127.0.0.1:50151", engine="grpc")
    Connection('127.0.0.1:50151', engine='grpc')
  """
  if target is None:
    target = os.environ.get("QUANTD_SERVER") or _HERE
    tls = tls or _tls_of(os.environ)
    if token is None and token_file is None:
      token_file = os.environ.get("QUANTD_CLIENT_TOKEN_FILE")
      token = None if token_file else os.environ.get("QUANTD_CLIENT_TOKEN")
    memory_socket = memory_socket or os.environ.get("QUANTD_MEMORY_SOCKET")
  _check("target", isinstance(target, str), "an address, as text", target)
  # The error must not show the token.
  text = token is None or isinstance(token, str)
  _check("token", text, "text", type(token))
  retry = Retry() if retry is None else retry
  _check("retry", isinstance(retry, Retry), "a quantd.Retry", retry)
  band_bytes = whole("band_bytes", band_bytes, 0, _MOST)
  legal = band_bytes == 0 or band_bytes >= LEAST_BAND
  _check("band_bytes", legal, f"0 or at least {LEAST_BAND} bytes", band_bytes)
  if stream_from is not None:
    stream_from = whole("stream_from", stream_from, 0, _MOST)
  first = within("retry.initial_backoff", retry.initial_backoff, 0.001, 3600)
  settings = Settings(
    target=target,
    tls=_tls(tls),
    token=token,
    token_file=_path("token_file", token_file),
    deadline=within("deadline", deadline, 0.001, YEAR),
    channels=whole("channels", channels, 1, 64),
    retry=Retry(
      whole("retry.max_attempts", retry.max_attempts, 1, 1000),
      first,
      within("retry.max_backoff", retry.max_backoff, first, 3600),
      within("retry.multiplier", retry.multiplier, 1, 100),
    ),
    dead_peer_timeout=within("dead_peer_timeout", dead_peer_timeout, 0.1, 3600),
    memory_socket=_path("memory_socket", memory_socket),
    busy_poll=within("busy_poll", busy_poll, 0, 0.1),
    band_bytes=band_bytes,
    stream_from=stream_from,
  )
  return Connection(settings, engine)


def _tls_of(environment: Mapping[str, str]) -> bool | Tls:
  """Returns the TLS settings of quantctl's environment variables."""
  names = {"ca": "CA", "cert": "CERT", "key": "KEY", "server_name": "NAME"}
  said = {
    k: environment.get(f"QUANTD_CLIENT_TLS_{v}") or None
    for k, v in names.items()
  }
  if any(said.values()):
    return Tls(**said)
  no = ("", "0", "false", "off", "no")
  return environment.get("QUANTD_CLIENT_TLS", "").lower() not in no


def _check(field: str, good: bool, expected: str, got: Any) -> None:
  if not good:
    raise Invalid.of(field, expected, shown(got))


def _path(field: str, path: Any) -> str | None:
  """Returns a path as text. Refuses a number, which open() would accept."""
  if path is None:
    return None
  text = os.fspath(path) if isinstance(path, os.PathLike) else path
  good = isinstance(text, str) and "\0" not in text
  _check(field, good, "the path of a file", path)
  return str(text)


def _tls(tls: Any) -> Tls | None:
  if isinstance(tls, Tls):
    name = tls.server_name
    good = name is None or isinstance(name, str)
    _check("tls.server_name", good, "text", name)
    return dataclasses.replace(
      tls,
      ca=_path("tls.ca", tls.ca),
      cert=_path("tls.cert", tls.cert),
      key=_path("tls.key", tls.key),
    )
  good = tls is None or isinstance(tls, bool)
  _check("tls", good, "True, False or a quantd.Tls", tls)
  return Tls() if tls else None
