"""Parses addresses of servers, and loads tokens and TLS files."""

import ipaddress
import re

from quantd.engines.engine import Settings
from quantd.errors import Invalid

_SCHEMES = ("unix", "unix-abstract", "ipv4", "ipv6", "vsock", "xds")


def _refuse(got: str) -> Invalid:
  expected = "addresses like 127.0.0.1:50151, NAME:50151 or unix:/PATH with commas between them"
  short = got if len(got) <= 80 else f"{got[:77]}..."
  return Invalid.of("target", expected, short or "an empty address")


def _check_port(port: str, text: str) -> None:
  # gRPC and the resolver would use a larger number modulo 2^16.
  if not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
    raise Invalid.of("target", "a port from 1 to 65535", text[:80])


def _parse_one(text: str) -> str:
  scheme, colon, rest = text.partition(":")
  if colon and scheme in _SCHEMES:
    if not rest:
      raise _refuse(text)
    if scheme in ("ipv4", "ipv6"):
      _check_port(rest.rpartition(":")[2], text)
    return text
  if scheme == "dns" and rest.startswith("//") and not rest.startswith("///"):
    # In dns://SERVER/NAME:PORT, ":PORT" is optional.
    _, named, port_of_name = rest[2:].partition("/")[2].partition(":")
    if named:
      _check_port(port_of_name, text)
    return text
  plain = rest.removeprefix("///") if scheme == "dns" else text
  parts = re.fullmatch(r"(\[[^\[\]]+\]|[^:\[\]/\s]+):([0-9a-z-]+)", plain)
  if parts is None:
    raise _refuse(text)
  _check_port(parts[2], text)
  return plain


def parse_target(target: str) -> list[str]:
  """Parses "host:port" or "unix:/path", or several separated by commas.

  Example:
    >>> parse_target("127.0.0.1:50151, gpu-b:50151")
    ['127.0.0.1:50151', 'gpu-b:50151']
  """
  if not isinstance(target, str):
    raise _refuse(repr(target))
  places = [_parse_one(text.strip(" ")) for text in target.split(",")]
  return list(dict.fromkeys(places))


def is_loopback(place: str) -> bool:
  """Returns whether an address is on this machine."""
  if place.startswith(("unix:", "unix-abstract:")):
    return True
  host = re.sub(r"^ipv[46]:", "", place).rpartition(":")[0].strip("[]")
  try:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback
  except ValueError:
    return host == "localhost"


def load_token(settings: Settings) -> str | None:
  """Returns the token of the settings. Raises Invalid if it is invalid."""
  token, field = settings.token, "token"
  if settings.token_file is not None:
    if token is not None:
      raise Invalid.of("token", "only one of token and token_file", "both")
    field = "token_file"
    token = (
      _read(field, settings.token_file).decode("utf-8", "replace").rstrip()
    )
  if token is None:
    return None
  if not re.fullmatch(r"[A-Za-z0-9\-._~+/=]+", token):
    # The error must not show the token, which may be a secret.
    raise Invalid.of(
      field, "letters, digits and -._~+/= on one line", "something else"
    )
  for place in parse_target(settings.target):
    if settings.tls is None and not is_loopback(place):
      raise Invalid.of(
        "tls",
        "TLS, because the token would be sent in plain text to another machine",
        f"plain text to {settings.target}",
      )
  return token


def _read(field: str, path: str) -> bytes:
  try:
    with open(path, "rb") as file:
      return file.read(1 << 20)
  except OSError as wrong:
    raise Invalid.of(
      field, "a usable file", f"{path}: {wrong.strerror}"
    ) from None


def load_tls(
  settings: Settings,
) -> tuple[bytes | None, bytes | None, bytes | None] | None:
  """Returns authorities, key and certificate as PEM, or None without TLS."""
  tls = settings.tls
  if tls is None:
    return None
  if (tls.cert is None) != (tls.key is None):
    missing = "tls.key" if tls.key is None else "tls.cert"
    raise Invalid.of(missing, "tls.cert and tls.key together", "none")
  pem: list[bytes | None] = []
  for field, path in (
    ("tls.ca", tls.ca),
    ("tls.key", tls.key),
    ("tls.cert", tls.cert),
  ):
    text = None if path is None else _read(field, path)
    if text is not None and b"-----BEGIN " not in text:
      raise Invalid.of(field, "a PEM file", str(path))
    pem.append(text)
  if tls.cert is not None and tls.key is not None:
    _check_pair(tls.cert, tls.key)
  return pem[0], pem[1], pem[2]


def _check_pair(cert: str, key: str) -> None:
  import ssl

  context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
  try:
    context.load_cert_chain(cert, key, password="")
  except (ssl.SSLError, OSError) as wrong:
    raise Invalid.of(
      "tls.cert", "a usable certificate and its key", f"{cert}: {wrong}"
    ) from None
