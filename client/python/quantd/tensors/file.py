"""Quantized tensors in safetensors files, the same bytes as the C++ library's.

A part is a tensor with a name such as "<name>.rowwise_data". Everything else
needed for decoding is JSON in the metadata "quantd.tensor.<name>". The state of
delayed scaling belongs to the training run and is not saved.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from io import BufferedReader
from typing import Any, TypeVar

import numpy as np

from quantd.errors import Invalid
from quantd.tensors import geometry
from quantd.tensors.copies import Part
from quantd.tensors.described import Decoder, Described
from quantd.tensors.description import describe, parse_description
from quantd.tensors.elements import Array
from quantd.tensors.geometry import Spec
from quantd.values import shown
from quantd.words import PROFILES

T = TypeVar("T", bound=Described)

_VERSIONS = ("1", "2", "3")
_PREFIX = "quantd.tensor."
_MOST_HEADER = 100_000_000

_DTYPES = {
  "e2m1x2": "U8",
  "f32": "F32",
  "f16": "F16",
  "bf16": "BF16",
  "e4m3": "F8_E4M3",
  "e5m2": "F8_E5M2",
  "e8m0": "F8_E8M0",
}


def save(tensors: Mapping[str, Described], path: Any) -> None:
  """Writes quantized tensors into one safetensors file.

  It is written under another name, and renamed when it is complete.

  Args:
    tensors: The tensors by name.
    path: The file to write. An existing file is replaced.

  Raises:
    OSError: The file cannot be written.
  """
  if isinstance(tensors, (str, os.PathLike)):
    # Before version 0.3, the path was the first argument.
    expected = "save(tensors, path), as in torch and safetensors"
    raise Invalid.of("tensors", expected, "save(path, tensors)")
  head, parts = _head(tensors)
  final = os.path.realpath(os.fspath(path))
  folder = os.path.dirname(final)
  handle, draft = tempfile.mkstemp(
    prefix=".quantd.", suffix=".partial", dir=folder
  )
  try:
    with os.fdopen(handle, "wb") as file:
      file.write(head)
      for data in parts:
        file.write(data.data)
      file.flush()
      # Synced before the rename: otherwise a power cut could leave the file
      # with missing bytes.
      os.fsync(file.fileno())
    os.chmod(draft, _mode_for(final))
    os.replace(draft, final)
  except BaseException:
    if os.path.exists(draft):
      os.unlink(draft)
    raise


def _mode_for(final: str) -> int:
  """Returns the mode of the replaced file, or the umask's default."""
  try:
    return os.stat(final).st_mode & 0o777
  except OSError:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _head(tensors: Mapping[str, Described]) -> tuple[bytes, list[Array]]:
  """Returns the header of the file, and the parts that follow it."""
  metadata = {"quantd.version": "2"}
  if not isinstance(tensors, Mapping) or not tensors:
    raise Invalid.of("tensors", "quantized tensors by name", shown(tensors))
  for name, t in tensors.items():
    if not isinstance(t, Described) or not isinstance(name, str):
      got = f"{name!r}: {type(t).__name__}"
      raise Invalid.of("tensors", "quantized tensors by name", got)
    if not name.isprintable() and any("\ud800" <= c <= "\udfff" for c in name):
      raise Invalid.of("tensors", "valid Unicode names", ascii(name))
  numerics = {t.profile for t in tensors.values()}
  entries: dict[str, Any] = {}
  parts = []
  at = 0
  for name, t in tensors.items():
    if t.profile != "te" or t.format == "fp8_channel_e4m3":
      metadata["quantd.version"] = "3"
    metadata["quantd.numerics"] = t.profile if len(numerics) == 1 else "several"
    metadata[_PREFIX + name] = describe(t)
    for spec in _kept(geometry.specs(t.message(), t.options)):
      entry = {
        "dtype": _DTYPES[spec.dtype],
        "shape": list(spec.shape),
        "data_offsets": [at, at + spec.size],
      }
      if f"{name}.{spec.kind}" in entries:
        raise Invalid.of("name", "different names", name)
      entries[f"{name}.{spec.kind}"] = entry
      parts.append(t.parts[spec.kind].data)
      at += spec.size
  header = {"__metadata__": dict(sorted(metadata.items())), **entries}
  text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
  # The buffer begins at a multiple of 64.
  text += b" " * (-(8 + len(text)) % 64)
  return len(text).to_bytes(8, "little") + text, parts


def _kept(specs: list[Spec]) -> list[Spec]:
  return [s for s in specs if s.kind not in ("amax_history", "next_scale")]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  """Builds a JSON object. Refuses duplicate names."""
  found = dict(pairs)
  if len(found) != len(pairs):
    raise ValueError("a name occurs twice")
  return found


class _File:
  """An open file whose header was read. Its content is not trusted."""

  def __init__(self, file: BufferedReader, path: str) -> None:
    self._file = file
    self._path = path
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, _MOST_HEADER):
      raise self.bad("not a safetensors file, or truncated")
    self._begin = 8 + length
    self._room = size - self._begin
    try:
      header = json.loads(file.read(length), object_pairs_hook=_once)
      self.metadata: dict[str, str] = header.pop("__metadata__", {})
      self.entries: dict[str, Any] = header
    except (ValueError, AttributeError, TypeError, RecursionError):
      raise self.bad("its header is malformed") from None
    if (
      not isinstance(self.metadata, dict)
      or "quantd.version" not in self.metadata
    ):
      raise self.bad("not a file of quantized tensors")
    if self.metadata["quantd.version"] not in _VERSIONS:
      version = str(self.metadata["quantd.version"])[:40]
      raise self.bad(
        f'layout version "{version}" is newer than this package, which reads up '
        f"to version {_VERSIONS[-1]}"
      )
    said = self.metadata.get("quantd.numerics", "te")
    if said != "several" and said not in PROFILES:
      known = ", ".join(PROFILES)
      raise self.bad(
        f'numerics "{str(said)[:40]}" are unknown to this package, which knows '
        f"{known}"
      )
    if not self._is_tiled():
      raise self.bad("its tensors overlap or leave gaps")

  def _is_tiled(self) -> bool:
    """Returns whether the tensors fill the file without gaps or overlap."""
    try:
      places = sorted(
        tuple(entry["data_offsets"]) for entry in self.entries.values()
      )
      at = 0
      for begin, end in places:
        if type(begin) is not int or type(end) is not int:
          return False
        if begin != at or end < begin:
          return False
        at = end
    except (KeyError, TypeError, ValueError):
      return False
    return at == self._room

  def bad(self, why: str) -> Invalid:
    return Invalid.of(
      "file", "a file of quantized tensors", f"{self._path}: {why}"
    )

  def names(self) -> list[str]:
    return [k[len(_PREFIX) :] for k in self.metadata if k.startswith(_PREFIX)]

  def read(self, name: str, spec: Spec) -> Part:
    entry = self.entries.get(f"{name}.{spec.kind}")
    if not isinstance(entry, dict):
      raise self.bad(f'tensor "{name}": its part {spec.kind} is missing')
    try:
      begin, end = entry["data_offsets"]
      legal = entry["dtype"] == _DTYPES[spec.dtype]
      # Compared as text, so that 96.0 and true do not count as sizes.
      legal = legal and json.dumps(entry["shape"]) == json.dumps(spec.shape)
      legal = (
        legal and 0 <= begin and end - begin == spec.size and end <= self._room
      )
    except (KeyError, TypeError, ValueError):
      legal = False
    if not legal:
      raise self.bad(
        f'tensor "{name}": its part {spec.kind} does not have the type or shape '
        "that its description states"
      )
    data = np.empty(spec.size, np.uint8)
    self._file.seek(self._begin + begin)
    if spec.size and self._file.readinto(data.data) != spec.size:
      raise self.bad("truncated while it was read")
    data.flags.writeable = False
    return Part(spec, data)


def read(
  kind: type[T], path: Any, name: str | None, connection: Decoder | None
) -> T:
  """Reads a tensor as the class `kind`; see `quantd.load`."""
  path = os.fspath(path)
  with open(path, "rb") as opened:
    file = _File(opened, path)
    if name is None:
      found = file.names()
      if len(found) != 1:
        some = ", ".join(found[:20]) + (" ..." if len(found) > 20 else "")
        got = f"no name; {path} has {len(found)}: {some}"
        raise Invalid.of("name", "the name of one tensor", got)
      name = found[0]
    if _PREFIX + name not in file.metadata:
      raise KeyError(f'{path}: no quantized tensor "{name}"')
    described = parse_description(file.metadata[_PREFIX + name])
    if described is None:
      raise file.bad(f'tensor "{name}": its description is malformed')
    tensor, options = described
    parts = {}
    for spec in _kept(geometry.specs(tensor, options)):
      parts[spec.kind] = part = file.read(name, spec)
      if spec.kind.endswith("amax") and (part.array() < 0).any():
        raise file.bad(f'tensor "{name}": its amax is negative')
  made = options.SerializeToString()
  return kind(tensor, made, parts, connection=connection)
