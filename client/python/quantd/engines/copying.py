"""Copies of bytes that leave the interpreter's lock to other threads meanwhile.

What Python itself copies, slices of memoryviews and joined pieces, it copies
under its lock, so that the threads of a call in bands would take turns at it.
"""

import ctypes
from collections.abc import Sequence

import numpy as np

from quantd.engines.engine import Buffer

# Bytes; below, letting go of the lock costs more than the copy.
_SMALL = 32 << 10

# As C has them: an object that nobody else knows yet may be written to.
_make = ctypes.pythonapi.PyBytes_FromStringAndSize
_make.argtypes, _make.restype = (
  (ctypes.c_void_p, ctypes.c_ssize_t),
  ctypes.py_object,
)
_address = ctypes.pythonapi.PyBytes_AsString
_address.argtypes, _address.restype = (ctypes.py_object,), ctypes.c_void_p


def copy(target: memoryview, source: memoryview) -> None:
  """Copies bytes to where as many are."""
  if source.nbytes < _SMALL:
    target[:] = source
  else:
    np.copyto(np.frombuffer(target, np.uint8), np.frombuffer(source, np.uint8))


def join(pieces: Sequence[Buffer]) -> bytes:
  """Bytes back to back in one object."""
  size = sum(len(piece) for piece in pieces)
  if size < _SMALL:
    return b"".join(pieces)
  made: bytes = _make(None, size)
  at = _address(made)
  for piece in pieces:
    if len(piece):
      source = np.frombuffer(piece, np.uint8)
      ctypes.memmove(at, source.ctypes.data, source.size)
      at += source.size
  return made
