"""Arrays of PyTorch, CuPy and JAX in GPU memory.

Only connections that can access GPU memory accept them. A call first waits for
the work that the library has queued on its current stream. The call's own work
is done when it returns, so any stream may use the results.
"""

import functools
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quantd.errors import Invalid
from quantd.tensors.elements import (
  Array,
  check_buffer,
  checked_word,
  library_of,
  numpy_dtype,
  size_of,
  torch_dtype,
)

# Alignment of parts in bytes, which lets kernels use them in place.
_ALIGNMENT = 256


@dataclass(eq=False, slots=True)
class DeviceBytes:
  """Contiguous bytes in GPU memory. Keeps the array that owns them alive.

  If `offset` is negative, they are all bytes of `owner`, an array of `library`.
  Otherwise `owner` is an array of bytes, and they are a slice from `offset`.
  """

  owner: Any
  library: str
  pointer: int
  nbytes: int
  offset: int = -1

  @property
  def array(self) -> Any:
    """The bytes as an array: `owner`, or a slice of it."""
    if self.offset < 0:
      return self.owner
    if self.library == "torch":
      return self.owner.narrow(0, self.offset, self.nbytes)
    return self.owner[self.offset : self.offset + self.nbytes]

  @property
  def place(self) -> str:
    """The GPU that has the bytes, such as "cuda:0"."""
    return f"cuda:{_ordinal(self.owner, self.library)}"

  def overlaps(self, other: "DeviceBytes") -> bool:
    """Returns whether this shares a byte with `other`."""
    return (
      self.pointer < other.pointer + other.nbytes
      and other.pointer < self.pointer + self.nbytes
    )

  def copy(self) -> "DeviceBytes":
    """Copies the bytes to new memory of the same GPU."""
    array = self.array.clone() if self.library == "torch" else self.array.copy()
    return DeviceBytes(
      array, self.library, _pointer(array, self.library), self.nbytes
    )

  def host(self) -> Array:
    """Copies the bytes to host memory."""
    flat = self.array
    if self.library == "torch":
      flat = flat.reshape(-1).view(sys.modules["torch"].uint8).cpu().numpy()
    elif self.library == "cupy":
      flat = flat.reshape(-1).view(np.uint8).get()
    else:
      flat = np.asarray(flat).reshape(-1).view(np.uint8)
    made: Array = flat
    return made

  def view(self, word: str, shape: tuple[int, ...]) -> Any:
    """Returns the bytes as an array of a type and shape."""
    if self.library == "torch":
      torch = sys.modules["torch"]
      dtype = torch_dtype(word)
      # Fast path, because each of the steps below takes microseconds.
      if self.offset >= 0 and dtype is torch.uint8:
        return self.owner.as_strided(shape, _strides(shape), self.offset)
      flat = self.array
      if flat.dim() != 1:
        flat = flat.reshape(-1)
      return (flat if flat.dtype == dtype else flat.view(dtype)).view(shape)
    if self.library == "cupy":
      return self.array.reshape(-1).view(numpy_dtype(word)).reshape(shape)
    import jax

    dtype, size = numpy_dtype(word), size_of(word)
    rows = self.array.reshape((-1, size) if size > 1 else (-1,))
    return jax.lax.bitcast_convert_type(rows, dtype).reshape(shape)


@functools.lru_cache(maxsize=64)
def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
  """Returns the strides of a contiguous array, in elements."""
  return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def is_on_device(x: Any) -> bool:
  """Returns whether x is an array in the memory of a single GPU."""
  library = library_of(x)
  if library == "cupy":
    return True
  if library == "torch":
    return bool(x.device.type == "cuda")
  if library != "jax":
    return False
  try:
    devices = x.devices()
  except AttributeError:
    return False
  return len(devices) == 1 and next(iter(devices)).platform == "gpu"


def _ordinal(x: Any, library: str) -> int:
  if library == "torch":
    return int(x.device.index)
  if library == "cupy":
    return int(x.device.id)
  return int(next(iter(x.devices())).local_hardware_id)


def _pointer(x: Any, library: str) -> int:
  if library == "torch":
    return int(x.data_ptr())
  if library == "cupy":
    return int(x.data.ptr)
  return int(x.addressable_data(0).unsafe_buffer_pointer())


def settle(buffers: Iterable[Any]) -> None:
  """Waits for work that libraries have queued on GPU arrays."""
  seen = set()
  for b in buffers:
    if not isinstance(b, DeviceBytes):
      continue
    if b.library == "jax":
      b.owner.block_until_ready()
      continue
    where = (b.library, _ordinal(b.owner, b.library))
    if where in seen:
      continue
    seen.add(where)
    if b.library == "torch":
      sys.modules["torch"].cuda.current_stream(where[1]).synchronize()
    else:
      cupy = sys.modules["cupy"]
      with cupy.cuda.Device(where[1]):
        cupy.cuda.get_current_stream().synchronize()


def read(
  x: Any, library: str, field: str, said: str | None
) -> tuple[str, tuple[int, ...], DeviceBytes]:
  """Returns type, shape and bytes of an input array."""
  word = checked_word(field, x.dtype, said)
  if x.ndim == 0:
    raise Invalid.of(f"{field}.shape", "1 to 8 dimensions", "none")
  if library == "torch":
    if x.layout != sys.modules["torch"].strided:
      raise Invalid.of(f"{field}.layout", "a dense tensor", str(x.layout))
    # Checked first, because each call takes a microsecond and is rarely needed.
    if x.requires_grad:
      x = x.detach()
    if x.is_neg():
      x = x.resolve_neg()
    if not x.is_contiguous():
      x = x.contiguous()
  elif library == "cupy":
    x = sys.modules["cupy"].ascontiguousarray(x)
  shape = tuple(int(d) for d in x.shape)
  nbytes = math.prod(shape) * size_of(word)
  return word, shape, DeviceBytes(x, library, _pointer(x, library), nbytes)


def writable(
  x: Any, library: str, word: str, shape: tuple[int, ...], field: str
) -> DeviceBytes:
  """Returns a caller's array as writable bytes."""
  if library == "jax":
    raise Invalid.of(field, "a writable array", "an array of JAX")
  contiguous = x.is_contiguous() if library == "torch" else x.flags.c_contiguous
  if not contiguous:
    raise Invalid.of(field, "contiguous memory", "strided memory")
  want = math.prod(shape) * size_of(word)
  check_buffer(field, x, int(x.nbytes), word, want)
  return DeviceBytes(x, library, _pointer(x, library), want)


def empty(near: DeviceBytes, sizes: Sequence[int]) -> list[DeviceBytes]:
  """Allocates bytes for several parts on the same GPU, in one array."""
  places, total = [], 0
  for size in sizes:
    places.append(total)
    total += -(-size // _ALIGNMENT) * _ALIGNMENT
  library = near.library
  if library == "torch":
    torch = sys.modules["torch"]
    whole = torch.empty(total, dtype=torch.uint8, device=near.owner.device)
  elif library == "cupy":
    with near.owner.device:
      whole = sys.modules["cupy"].empty(total, np.uint8)
  else:
    # A slice in JAX is a copy, so each part has its own array. JAX's arrays are
    # immutable, but these are written before any other code refers to them.
    return [_of_jax(near, size) for size in sizes]
  base = _pointer(whole, library)
  return [
    DeviceBytes(whole, library, base + at, size, at)
    for at, size in zip(places, sizes, strict=True)
  ]


def _of_jax(near: DeviceBytes, nbytes: int) -> DeviceBytes:
  import jax
  import jax.numpy as jnp

  with jax.default_device(next(iter(near.owner.devices()))):
    made = jnp.empty(nbytes, jnp.uint8)
  return DeviceBytes(made, "jax", _pointer(made, "jax"), nbytes)
