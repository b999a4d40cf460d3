"""Joins a message and its payload with one copy, and splits them with no copy.

`payload` is field 101 of every message that has one, and always the last field.
Protobuf can therefore parse the rest while the payload's bytes stay in place.
"""

from collections.abc import Sequence

from quantd.engines.engine import Buffer

# The tag of field 101 with length-delimited bytes.
_PAYLOAD_TAG = 101 << 3 | 2


def varint(value: int) -> bytes:
  """Encodes a number as protobuf does.

  Example:
    >>> varint(300).hex()
    'ac02'
  """
  out = bytearray()
  while value > 0x7F:
    out.append(value & 0x7F | 0x80)
    value >>= 7
  out.append(value)
  return bytes(out)


def join(header: bytes, payload: Sequence[Buffer]) -> bytes:
  """Returns the whole message. As in proto3, an empty payload is omitted."""
  buffers = [memoryview(b).cast("B") for b in payload if memoryview(b).nbytes]
  size = sum(b.nbytes for b in buffers)
  if size == 0:
    return header
  return b"".join((header, varint(_PAYLOAD_TAG), varint(size), *buffers))


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
  """Returns the number at offset `at`, and the offset where it ends."""
  value = shift = 0
  while True:
    byte = data[at]
    at += 1
    value |= (byte & 0x7F) << shift
    if byte < 0x80:
      return value, at
    shift += 7
    if shift > 63:
      raise ValueError("a number is too long")


def split(message: bytes) -> tuple[bytes, memoryview]:
  """Splits a message of `join`. The payload is a view of `message`.

  Raises:
    ValueError: `message` is malformed.
  """
  data = memoryview(message)
  at = 0
  try:
    while at < len(data):
      tag, after = read_varint(data, at)
      kind = tag & 7
      if kind == 2:
        size, after = read_varint(data, after)
        if tag == _PAYLOAD_TAG:
          if after + size != len(data):
            raise ValueError("the payload is not the end of the message")
          return bytes(data[:at]), data[after:]
        after += size
      elif kind == 0:
        _, after = read_varint(data, after)
      elif kind in (1, 5):
        after += 8 if kind == 1 else 4
      else:
        raise ValueError("a field has an unknown wire type")
      at = after
  except IndexError:
    at = len(data) + 1
  if at != len(data):
    raise ValueError("the message is truncated")
  return message, data[:0]
