"""Reads arrays of any library that has `__dlpack__`, including bf16.

numpy's own reader does not support bf16, the type of most tensors here. For
bf16, numpy receives the same memory as uint16.
"""

import ctypes
from typing import Any

import numpy as np

from quantd.errors import Invalid
from quantd.tensors.elements import Array
from quantd.values import shown

# Types of devices whose memory the CPU can read: the CPU itself, and memory
# pinned by CUDA or ROCm.
_HOST = (1, 3, 11)
_UINT, _FLOAT, _BFLOAT = 1, 2, 4


class _Head(ctypes.Structure):
  """The first fields of a DLTensor."""

  _fields_ = (
    ("data", ctypes.c_void_p),
    ("device", ctypes.c_int32 * 2),
    ("ndim", ctypes.c_int32),
    ("code", ctypes.c_uint8),
    ("bits", ctypes.c_uint8),
    ("lanes", ctypes.c_uint16),
  )


class _Held:
  """An object that passes a capsule on to numpy."""

  def __init__(self, capsule: Any, device: Any) -> None:
    self._capsule = capsule
    self._device = device

  def __dlpack__(self, **_: Any) -> Any:
    return self._capsule

  def __dlpack_device__(self) -> Any:
    return self._device


def from_dlpack(
  x: Any, field: str, dtype: str | None
) -> tuple[Array, str | None]:
  """Returns an array over x's memory, and "bf16" if it is uint16 with bf16 bits."""
  device = x.__dlpack_device__()
  if int(device[0]) not in _HOST:
    raise Invalid.of(
      f"{field}.device",
      "host memory; copy it there first, because this connection shares no GPU "
      "memory",
      f"DLPack device {int(device[0])}",
    )
  capsule = x.__dlpack__()
  get = ctypes.pythonapi.PyCapsule_GetPointer
  get.restype = ctypes.c_void_p
  get.argtypes = [ctypes.py_object, ctypes.c_char_p]
  head = _Head.from_address(get(capsule, b"dltensor"))
  kind = (head.code, head.bits, head.lanes)
  if kind not in ((_FLOAT, 32, 1), (_FLOAT, 16, 1), (_BFLOAT, 16, 1)):
    raise Invalid.of(
      f"{field}.dtype", "f32, f16 or bf16", f"DLPack type {kind}"
    )
  if head.code == _BFLOAT:
    if dtype not in (None, "bf16"):
      raise Invalid.of(f"{field}.dtype", "bf16, the array's type", shown(dtype))
    dtype, head.code = "bf16", _UINT
  # When the array is freed, it releases the capsule, and with it the memory.
  return np.from_dlpack(_Held(capsule, device)), dtype
