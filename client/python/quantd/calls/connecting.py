"""How a connection is made."""

import dataclasses
import os
from typing import Any

from quantd.calls.call_options import YEAR
from quantd.calls.connection import Connection
from quantd.engines.engine import LEAST_BAND, Retry, Settings, Tls
from quantd.errors import Invalid
from quantd.values import shown

__all__ = ["connect"]

# Bytes: no machine has more.
_MOST = 2**63 - 1


def connect(
  target: str,
  *,
  engine: str | None = None,
  tls: bool | Tls = False,
  token: str | None = None,
  token_file: str | os.PathLike[str] | None = None,
  deadline: float = 30.0,
  channels: int = 2,
  retry: Retry | None = None,
  dead_peer_timeout: float = 20.0,
  memory_socket: str | os.PathLike[str] | None = None,
  busy_poll: float = 0.0,
  band_bytes: int = 0,
  stream_from: int | None = None,
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
    channels: Connections to each server. The pure engine has one, whatever
      this says.
    retry: When a failed call is sent again.
    dead_peer_timeout: Seconds after which a connection is given up whose other
      side takes no byte.
    memory_socket: Of a server on this machine, its --memory-socket: arrays of
      `Connection.empty` then lie in memory that it shares, and neither they nor
      what is made of them is sent. Of the native engine.
    busy_poll: Seconds, up to 0.1, for which the thread of a call looks for its
      answer, on a core of its own, before it sleeps: to be woken takes an idle
      core 20 to 200 us. Of the native engine, and not of calls in chunks; a
      server's --busy-poll-us is its own half of it.
    band_bytes: Calls that carry more than this each way, and than 4 MiB, are
      cut into bands of rows of about so many bytes, which are calls of their
      own over all connections to all servers, one on each at a time. The bytes
      are those of one call. Of the native engine. 0: none is cut; else at least 262144. Not cut are
      groups, fewer than 256 rows, and `quantize` with `dbias`, `statistics` or
      a `history`. For an amax that is computed up to eight bands meet, larger
      ones where need be, each sent once in chunks; where a server has no room
      for all of them, or is of an older version, each is sent twice.
    stream_from: Calls whose tensor has so many bytes travel in chunks, 0: all
      of them. What is larger than one message, or than the server takes as
      one, always does, up to the server's memory; by the pure engine from 256
      MiB on.

  Returns:
    The connection.

  Raises:
    quantd.Invalid: An argument is no good.
    ImportError: The engine cannot be had here.

  Example:
    >>> connect("127.0.0.1:50151", engine="grpc")
    Connection('127.0.0.1:50151', engine='grpc')
  """
  _check("target", isinstance(target, str), "an address, as text", target)
  # No token is shown.
  text = token is None or isinstance(token, str)
  _check("token", text, "text", type(token))
  retry = Retry() if retry is None else retry
  _check("retry", isinstance(retry, Retry), "a quantd.Retry", retry)
  settings = Settings(
    target=target,
    tls=_tls(tls),
    token=token,
    token_file=_path("token_file", token_file),
    deadline=_number("deadline", deadline, 0.001, YEAR),
    channels=_number("channels", channels, 1, 64, int),
    retry=Retry(
      max_attempts=_number(
        "retry.max_attempts", retry.max_attempts, 1, 1000, int
      ),
      initial_backoff=_number(
        "retry.initial_backoff", retry.initial_backoff, 0.001, 3600
      ),
      max_backoff=_number(
        "retry.max_backoff", retry.max_backoff, retry.initial_backoff, 3600
      ),
      multiplier=_number("retry.multiplier", retry.multiplier, 1, 100),
    ),
    dead_peer_timeout=_number(
      "dead_peer_timeout", dead_peer_timeout, 0.1, 3600
    ),
    memory_socket=_path("memory_socket", memory_socket),
    busy_poll=_number("busy_poll", busy_poll, 0, 0.1),
    band_bytes=_band_bytes(band_bytes),
    stream_from=None
    if stream_from is None
    else _number("stream_from", stream_from, 0, _MOST, int),
  )
  return Connection(settings, engine)


def _check(field: str, good: bool, expected: str, got: Any) -> None:
  if not good:
    raise Invalid.of(field, expected, shown(got))


def _number(
  field: str, value: Any, low: float, high: float, kind: type = float
) -> Any:
  whole = kind is int
  number = isinstance(value, int if whole else (int, float))
  good = number and not isinstance(value, bool) and low <= value <= high
  expected = f"{'a whole number from ' if whole else ''}{low:g} to {high:g}"
  _check(field, good, expected, value)
  return value


def _band_bytes(value: Any) -> int:
  whole = isinstance(value, int) and not isinstance(value, bool)
  good = whole and (value == 0 or LEAST_BAND <= value <= _MOST)
  _check("band_bytes", good, f"0 or at least {LEAST_BAND} bytes", value)
  return int(value)


def _path(field: str, path: Any) -> str | None:
  """A path as text. A number would be a descriptor, which reading closes."""
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
