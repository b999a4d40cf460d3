"""Arrays of other libraries as input and output, without copies if possible.

Input is read as bytes with a type and a shape. Only numpy is required.
ml_dtypes, PyTorch and JAX are used if they are installed.
"""

import ctypes
import math
import sys
from typing import Any, NamedTuple

import numpy as np

from quantd.errors import Invalid
from quantd.tensors import device
from quantd.tensors.device import DeviceBytes
from quantd.tensors.dlpack import from_dlpack
from quantd.tensors.elements import (
  Array,
  check_buffer,
  checked_word,
  float_word,
  library_of,
  numpy_dtype,
  size_of,
  torch_dtype,
)
from quantd.values import shown
from quantd.words import DTYPES, DType


class Source(NamedTuple):
  """An input tensor. `data` is a flat uint8 array of its bytes."""

  dtype: str
  shape: tuple[int, ...]
  data: Array
  library: str  # the input's library: "numpy", "torch", "cupy" or "jax"
  # The tensor's bytes if they are in GPU memory. `data` is then empty.
  device: DeviceBytes | None = None

  @property
  def payload(self) -> Array | DeviceBytes:
    """The bytes, in host or GPU memory."""
    return self.data if self.device is None else self.device


def read(
  x: Any,
  field: str = "tensor",
  dtype: DType | None = None,
  on_device: bool = False,
) -> Source:
  """Reads a tensor of any library as bytes.

  Shares memory if `x` is contiguous and little-endian, and copies it otherwise.
  `field` is the tensor's name in errors. `dtype` is its type if numpy does not
  have it. `on_device` allows GPU memory.
  """
  library = library_of(x)
  said = None if dtype is None else DTYPES.float_word(f"{field}.dtype", dtype)
  if on_device and device.is_on_device(x):
    word, shape, there = device.read(x, library, field, said)
    return Source(word, shape, np.empty(0, np.uint8), library, there)
  if library == "torch":
    return _read_torch(x, field, said)
  if library == "jax":
    x = np.asarray(x)
  elif library in ("dlpack", "cupy"):
    x, said = from_dlpack(x, field, said)
  elif library == "":
    raise Invalid.of(
      field,
      "an array of numpy, torch, jax or with __dlpack__",
      type(x).__name__,
    )
  refuse_mask(x, field)
  a = np.asarray(x)
  word = _word_of(a.dtype, field, said)
  if a.ndim == 0:
    raise Invalid.of(f"{field}.shape", "1 to 8 dimensions", "none")
  if a.dtype.byteorder == ">" or (
    a.dtype.byteorder == "=" and sys.byteorder == "big"
  ):
    a = a.astype(a.dtype.newbyteorder("<"))
  data = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
  return Source(
    word,
    a.shape,
    data,
    library if library in ("torch", "jax") else "numpy",
  )


def refuse_mask(x: Any, field: str) -> None:
  """Refuses masked arrays, whose masks would be lost."""
  if type(x) is not np.ndarray and isinstance(x, np.ma.MaskedArray):
    raise Invalid.of(field, "an array without a mask: x.filled(0)", "a mask")


def _word_of(dtype: Any, field: str, said: str | None) -> str:
  """Returns the type of a numpy array; `said` for integers of its size."""
  bits = float_word(dtype) is None and dtype.kind in "iuV"
  if bits and said is not None and dtype.itemsize == size_of(said):
    return said
  if said is None and dtype == np.uint16:
    got = 'uint16 (for bits of bf16, pass dtype="bf16")'
    raise Invalid.of(f"{field}.dtype", "f32, f16 or bf16", got)
  return checked_word(field, dtype, said)


def _read_torch(x: Any, field: str, said: str | None) -> Source:
  torch = sys.modules["torch"]
  word = checked_word(field, x.dtype, said)
  if x.device.type != "cpu":
    raise Invalid.of(
      f"{field}.device",
      "a tensor in host memory; call .cpu() first, because this connection "
      "shares no GPU memory",
      str(x.device),
    )
  if x.layout != torch.strided:
    raise Invalid.of(f"{field}.layout", "a dense tensor", str(x.layout))
  if x.dim() == 0:
    raise Invalid.of(f"{field}.shape", "1 to 8 dimensions", "none")
  shape = tuple(x.shape)
  flat = x.detach().resolve_neg().contiguous().reshape(-1)
  data = (
    flat.view(torch.uint8).numpy() if flat.numel() else np.empty(0, np.uint8)
  )
  return Source(word, shape, data, "torch")


def writable(
  x: Any,
  word: str,
  shape: tuple[int, ...],
  field: str,
  on_device: bool = False,
) -> Array | DeviceBytes:
  """Returns a caller's buffer as flat writable bytes."""
  refuse_mask(x, field)
  library = library_of(x)
  if on_device and device.is_on_device(x):
    return device.writable(x, library, word, shape, field)
  if library == "torch":
    if x.device.type != "cpu":
      raise Invalid.of(field, "a tensor in host memory", str(x.device))
    if not x.is_contiguous():
      raise Invalid.of(field, "contiguous memory", "strided memory")
    torch = sys.modules["torch"]
    flat: Array = x.detach().reshape(-1).view(torch.uint8).numpy()
  elif library == "numpy" and isinstance(x, np.ndarray):
    if not x.flags.c_contiguous:
      raise Invalid.of(field, "contiguous memory", "strided memory")
    if not x.flags.writeable:
      raise Invalid.of(field, "writable memory", "a read-only array")
    if x.dtype.byteorder == ">" or x.dtype.hasobject:
      raise Invalid.of(field, f"elements of {word}", str(x.dtype))
    flat = x.reshape(-1).view(np.uint8)
  else:
    try:
      view = memoryview(x).cast("B")
    except (TypeError, ValueError):
      raise Invalid.of(
        field, "an array or a buffer", type(x).__name__
      ) from None
    if view.readonly:
      raise Invalid.of(field, "writable memory", "a read-only buffer")
    flat = np.frombuffer(view, np.uint8)
  want = math.prod(shape) * size_of(word)
  check_buffer(field, x, flat.size, word, want)
  return flat


def view(data: Any, word: str, shape: tuple[int, ...]) -> Array:
  """Returns bytes as a numpy array of a type, without a copy."""
  flat: Array = np.frombuffer(data, np.uint8)
  shaped: Array = flat.view(numpy_dtype(word)).reshape(shape)
  return shaped


def shown_as(
  library: str, data: Array, word: str, shape: tuple[int, ...]
) -> Any:
  """Returns bytes as an array of a library; numpy and PyTorch do not copy."""
  if library != "torch":
    made = view(data, word, shape)
    return to_jax(made) if library == "jax" else made
  import torch

  if not data.size:
    return torch.empty(shape, dtype=torch_dtype(word))
  # Through ctypes, because PyTorch warns about read-only memory.
  memory = (ctypes.c_uint8 * data.size).from_address(data.ctypes.data)
  memory.owner = data  # type: ignore[attr-defined]
  flat = torch.frombuffer(memory, dtype=torch.uint8)
  return flat.view(torch_dtype(word)).reshape(shape)


def empty(library: str, word: str, shape: tuple[int, ...]) -> Any:
  """Allocates an array of numpy or torch for a result."""
  if library == "torch":
    import torch

    return torch.empty(shape, dtype=torch_dtype(word))
  return np.empty(shape, numpy_dtype(word))


def library_for(like: Any, default: str = "numpy") -> str:
  """Returns the library that `like` names, or that of the array `like`."""
  if like is None:
    return default
  if isinstance(like, str):
    if like in ("numpy", "torch", "jax"):
      return like
  elif (found := library_of(like)) in ("numpy", "torch", "jax"):
    return found
  raise Invalid.of("like", "numpy, torch, jax or an array of one", shown(like))


def to_jax(a: Array) -> Any:
  """Copies a numpy array to a JAX array."""
  import jax.numpy as jnp

  return jnp.asarray(a)
