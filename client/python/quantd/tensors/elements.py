"""Types of elements in numpy and PyTorch, and the library of an array."""

import functools
import sys
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from quantd.errors import Invalid

Array = npt.NDArray[Any]
# The library of results: its name, or an array of it.
Like = Literal["numpy", "torch", "jax"] | Any

_BYTES = {
  "f32": 4,
  "f16": 2,
  "bf16": 2,
  "e2m1x2": 1,
  "e4m3": 1,
  "e5m2": 1,
  "e8m0": 1,
}
# Type names in ml_dtypes, and the numpy types that replace them without it.
_EXTENDED = {
  "bf16": ("bfloat16", np.uint16),
  "e4m3": ("float8_e4m3fn", np.uint8),
  "e5m2": ("float8_e5m2", np.uint8),
  "e8m0": ("float8_e8m0fnu", np.uint8),
}


@functools.cache
def numpy_dtype(word: str) -> Any:
  """Returns the numpy type for the name of an element type.

  bf16 and FP8 are types of ml_dtypes if it is installed, and otherwise uint16
  and uint8. e2m1x2 is uint8 with two codes in a byte.

  Example:
    >>> numpy_dtype("f16")
    dtype('float16')
  """
  if word in _EXTENDED:
    name, plain = _EXTENDED[word]
    try:
      import ml_dtypes
    except ImportError:
      return np.dtype(plain)
    return np.dtype(getattr(ml_dtypes, name, plain))
  return np.dtype({"f32": "<f4", "f16": "<f2", "e2m1x2": "u1"}[word])


@functools.cache
def torch_dtype(word: str) -> Any:
  """Returns PyTorch's type for an element type, or uint8 if it has none."""
  import torch

  names = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
  names |= {k: v for k, (v, _) in _EXTENDED.items()}
  return getattr(torch, names.get(word, "uint8"), torch.uint8)


@functools.cache
def float_word(dtype: Any) -> str | None:
  """Returns the name of a library's type. None if tensors cannot have it."""
  name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
  return {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}.get(name)


def checked_word(field: str, dtype: Any, said: str | None) -> str:
  """Returns the name of an array's type, which must be `said` if given."""
  word = float_word(dtype)
  if word is None or said not in (None, word):
    expected = "f32, f16 or bf16" if said is None else f"elements of {said}"
    raise Invalid.of(f"{field}.dtype", expected, str(dtype))
  return word


def check_buffer(field: str, x: Any, nbytes: int, word: str, want: int) -> None:
  """Refuses a caller's buffer of another size or type."""
  if nbytes != want:
    raise Invalid.of(field, f"{want} bytes", f"{nbytes} bytes")
  dtype = getattr(x, "dtype", None)
  size = getattr(dtype, "itemsize", 1)
  if size not in (1, size_of(word)) or float_word(dtype) not in (None, word):
    raise Invalid.of(field, f"elements of {word} or bytes", str(dtype))


def size_of(word: str) -> int:
  """Returns the size of an element in bytes."""
  return _BYTES[word]


def library_of(x: Any) -> str:
  """Returns the library of an array; "dlpack" for others with `__dlpack__`."""
  if isinstance(x, (np.ndarray, np.generic)):
    return "numpy"
  module = type(x).__module__.partition(".")[0]
  if "torch" in sys.modules and isinstance(x, sys.modules["torch"].Tensor):
    return "torch"
  if module in ("jax", "jaxlib"):
    return "jax"
  if module == "cupy":
    return "cupy"
  return "dlpack" if hasattr(x, "__dlpack__") else ""
