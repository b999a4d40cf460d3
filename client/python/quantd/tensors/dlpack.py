"""Arrays of any library that has `__dlpack__`, bf16 included.

numpy's own reader knows no bf16, which is what most tensors here are of.
"""

import ctypes
from typing import Any

import numpy as np

from quantd.errors import Invalid
from quantd.tensors.elements import Array
from quantd.values import shown

# Devices whose memory a CPU reads: the CPU's own and pinned by CUDA or ROCm.
_HOST = (1, 3, 11)
_FLOAT, _BFLOAT = 2, 4


class _Device(ctypes.Structure):
  _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _Type(ctypes.Structure):
  _fields_ = (
    ("code", ctypes.c_uint8),
    ("bits", ctypes.c_uint8),
    ("lanes", ctypes.c_uint16),
  )


class _Tensor(ctypes.Structure):
  _fields_ = (
    ("data", ctypes.c_void_p),
    ("device", _Device),
    ("ndim", ctypes.c_int32),
    ("dtype", _Type),
    ("shape", ctypes.POINTER(ctypes.c_int64)),
    ("strides", ctypes.POINTER(ctypes.c_int64)),
    ("byte_offset", ctypes.c_uint64),
  )


def from_dlpack(
  x: Any, field: str, dtype: str | None
) -> tuple[Array, str | None]:
  """An array over the memory of `x`, and "bf16" where it is uint16 with its bits."""
  device = int(x.__dlpack_device__()[0])
  if device not in _HOST:
    raise Invalid.of(
      f"{field}.device",
      "memory of the host; copy it there first, for this connection shares no GPU "
      "memory",
      f"DLPack device {device}",
    )
  capsule = x.__dlpack__()
  get = ctypes.pythonapi.PyCapsule_GetPointer
  get.restype, get.argtypes = (
    ctypes.c_void_p,
    [ctypes.py_object, ctypes.c_char_p],
  )
  t = _Tensor.from_address(get(capsule, b"dltensor"))
  kind = (t.dtype.code, t.dtype.bits, t.dtype.lanes)
  element = {
    (_FLOAT, 32, 1): "<f4",
    (_FLOAT, 16, 1): "<f2",
    (_BFLOAT, 16, 1): "<u2",
  }
  if kind not in element:
    raise Invalid.of(
      f"{field}.dtype", "f32, f16 or bf16", f"DLPack type {kind}"
    )
  shape = tuple(t.shape[i] for i in range(t.ndim))
  size = np.dtype(element[kind]).itemsize
  strides = None
  if bool(t.strides):
    strides = tuple(t.strides[i] * size for i in range(t.ndim))
  extent = size
  for i, length in enumerate(shape):
    if length == 0:
      extent = 0
      break
    step = (
      strides[i] if strides else int(np.prod(shape[i + 1 :], dtype=int)) * size
    )
    if step < 0:
      raise Invalid.of(field, "strides >= 0", str(strides))
    extent += (length - 1) * step
  memory = (ctypes.c_uint8 * extent).from_address((t.data or 0) + t.byte_offset)
  # The capsule frees the memory when it is gone.
  memory.owner = capsule  # type: ignore[attr-defined]
  a: Array = np.ndarray(shape, element[kind], memoryview(memory), 0, strides)
  if t.dtype.code == _BFLOAT and dtype in (None, "bf16"):
    dtype = "bf16"
  elif t.dtype.code == _BFLOAT:
    raise Invalid.of(f"{field}.dtype", "bf16, which it is", shown(dtype))
  return a, dtype
