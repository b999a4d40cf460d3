"""The randomized Hadamard transform, computed without a server.

Works on arrays of numpy, PyTorch and JAX. Results equal `apply_rht` of a
connection bit for bit: products and sums are in fp32, in the order that
FORMATS.md defines. On some devices XLA flushes subnormal numbers to zero;
there, results below 2^-126 differ.

The names are similar to those of TransformerEngine's JAX utilities. A table in
the package's `README.md` compares them.
"""

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from quantd.errors import Invalid
from quantd.tensors import arrays
from quantd.tensors.elements import (
  Array,
  Like,
  checked_word,
  library_of,
  numpy_dtype,
  torch_dtype,
)
from quantd.values import flag, is_list, shown, whole
from quantd.words import DTYPES, DType

DIMENSIONS = (16, 32, 64, 128)
# The default sign mask, repeated for dimensions above 16.
DEFAULT_SIGN_MASK = 0xD7E8

Mask = int | None


def _checked(dimension: Any) -> int:
  found = whole("rht.dimension", dimension, 16, 128)
  if found not in DIMENSIONS:
    raise Invalid.of("rht.dimension", "16, 32, 64 or 128", shown(dimension))
  return found


def _mask(mask: Mask, dimension: int) -> int:
  if mask is None:
    return sum(DEFAULT_SIGN_MASK << at for at in range(0, dimension, 16))
  return whole("mask", mask, 0, (1 << dimension) - 1)


def sign_vector(dimension: int = 16, mask: Mask = None) -> Any:
  """Returns the signs of a mask as an int8 array of 1 and -1.

  Args:
    dimension: 16, 32, 64 or 128.
    mask: Bit i is set if sign i is -1. None uses the signs of TransformerEngine
      and torchao.

  Returns:
    int8 [dimension].

  Example:
    >>> sign_vector()[:5].tolist()
    [1, 1, 1, -1, 1]
  """
  dimension = _checked(dimension)
  bits = _mask(mask, dimension)
  return np.array(
    [-1 if bits >> i & 1 else 1 for i in range(dimension)], np.int8
  )


def sign_mask(vector: Sequence[int]) -> int:
  """Returns the mask of signs: bit i is set if sign i is -1.

  Example:
    >>> hex(sign_mask(sign_vector()))
    '0xd7e8'
  """
  if not is_list(vector):
    raise Invalid.of("sign_vector", "a list of 1 and -1", shown(vector))
  _checked(len(vector))
  mask = 0
  for i, sign in enumerate(vector):
    if isinstance(sign, (bool, np.bool_)) or sign not in (1, -1):
      raise Invalid.of("sign_vector", "1 and -1", shown(sign))
    mask |= int(sign == -1) << i
  return mask


def _factor(dimension: int) -> np.float32:
  return np.float32(1 / math.sqrt(dimension))


def hadamard_matrix(dimension: int = 16) -> Any:
  """Returns H[i][j] = (-1)^popcount(i & j) as int8, without scaling.

  Example:
    >>> int(abs(hadamard_matrix(16) @ hadamard_matrix(16)).max())
    16
  """
  dimension = _checked(dimension)
  h = np.ones((1, 1), np.int8)
  while len(h) < dimension:
    h = np.block([[h, h], [h, -h]])
  return h


def rht_matrix(
  dimension: int = 16,
  mask: Mask = None,
  dtype: DType = "bf16",
  like: Like = None,
) -> Any:
  """Returns R = diag(signs) H / sqrt(dimension), which rotates a row x to x R.

  Args:
    dimension: 16, 32, 64 or 128.
    mask: The sign mask. None uses the default.
    dtype: "f32", "f16" or "bf16". Entries are rounded once.
    like: "numpy", "torch", "jax" or an array.

  Returns:
    An array [dimension, dimension].

  Example:
    >>> float(rht_matrix(dtype="f32")[3, 0])
    -0.25
  """
  library = arrays.library_for(like)
  word = DTYPES.float_word("dtype", dtype)
  dimension = _checked(dimension)
  signs = sign_vector(dimension, mask).astype(np.float32)
  r = signs[:, None] * (hadamard_matrix(dimension) * _factor(dimension))
  data = _rounded(np, r, word).reshape(-1).view(np.uint8)
  return arrays.shown_as(library, data, word, r.shape)


def _namespace(library: str) -> Any:
  """Returns the module numpy, torch or jax.numpy."""
  names = {"numpy": "numpy", "torch": "torch", "jax": "jax.numpy"}
  return importlib.import_module(names[library])


def _floats(xp: Any, x: Any, dtype: str) -> Any:
  """Converts the values to fp32."""
  if xp is np and dtype == "bf16":
    bits = np.ascontiguousarray(x).view(np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32)
  return x.float() if xp.__name__ == "torch" else x.astype("float32")


def _scaled(xp: Any, x: Any, factors: Array) -> Any:
  """Returns fmaf(x, factor, +0): the product, but +0 where x is 0."""
  if xp.__name__ == "torch":
    product = x * xp.from_numpy(factors).to(x.device)
    return product.masked_fill(x == 0, 0.0)
  if xp is np:
    return np.where(x == 0, np.float32(0), x * factors)
  # XLA would fuse the product with the sum that follows it, and round only
  # once. To prevent that, every second product is negated, and a select negates
  # it back.
  odd = np.arange(len(factors)) % 2 == 1
  product = x * np.where(odd, -factors, factors)
  product = xp.where(odd, -product, product)
  return xp.where(x == 0, xp.float32(0), product)


def _rounded(xp: Any, x: Any, dtype: str) -> Any:
  """Rounds to nearest even. All NaNs become the same NaN."""
  if xp.__name__ == "torch":
    return x.masked_fill(xp.isnan(x), math.nan).to(torch_dtype(dtype))
  x = xp.where(xp.isnan(x), np.float32(np.nan), x)
  if xp is not np:
    names = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
    return x.astype(names[dtype])
  x = np.abs(x, where=np.isnan(x), out=x.astype(np.float32))
  if dtype != "bf16":
    with np.errstate(over="ignore"):
      return x.astype(numpy_dtype(dtype))
  bits = x.view(np.uint32)
  nearest = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
  half = np.where(np.isnan(x), np.uint32(0x7FC0), nearest).astype(np.uint16)
  return half.view(numpy_dtype("bf16"))


def _dtype_of(x: Any, dtype: Any) -> str:
  if dtype is not None:
    dtype = DTYPES.float_word("tensor.dtype", dtype)
    if dtype == "bf16" and x.dtype == np.uint16:
      return "bf16"
  return checked_word("tensor", x.dtype, dtype)


def _stages(xp: Any, t: Any, n: int) -> Any:
  """Maps (a, b) to (a + b, a - b) with strides 1 to n / 2, in blocks of n."""
  stride = 1
  while stride < n:
    pairs = t.reshape((-1, 2, stride))
    a, b = pairs[:, 0], pairs[:, 1]
    t = xp.stack((a + b, a - b), -2)
    stride *= 2
  return t.reshape((-1, n))


def _rotate(
  x: Any, inverse: bool, dimension: int, mask: Mask, dtype: Any
) -> tuple[Any, Any, str]:
  """Returns the module of x's library, rotated fp32 blocks, and x's type."""
  library = library_of(x)
  if library not in ("numpy", "torch", "jax"):
    raise Invalid.of(
      "tensor", "an array of numpy, torch or jax", type(x).__name__
    )
  arrays.refuse_mask(x, "tensor")
  word = _dtype_of(x, dtype)
  inverse = flag("inverse", inverse)
  dimension = _checked(dimension)
  bits = _mask(mask, dimension)
  if len(x.shape) == 0 or x.shape[-1] % dimension:
    got = "no dimension" if len(x.shape) == 0 else str(x.shape[-1])
    expected = f"a last dimension that is a multiple of {dimension}"
    raise Invalid.of("tensor.shape", expected, got)
  xp = _namespace(library)
  values = _floats(xp, x, word).reshape((-1, dimension))
  signs = sign_vector(dimension, bits).astype(np.float32)
  factor = _factor(dimension)
  before = np.full(dimension, factor) if inverse else signs * factor
  with np.errstate(invalid="ignore", over="ignore"):
    t = _stages(xp, _scaled(xp, values, before), dimension)
    if inverse:
      t = _scaled(xp, t, signs)
  return xp, t, word


def apply_rht(
  x: Any,
  inverse: bool = False,
  *,
  dimension: int = 16,
  mask: Mask = None,
  output: DType | None = None,
  dtype: DType | None = None,
) -> Any:
  """Rotates blocks along the last dimension, or undoes that.

  Args:
    x: An array [..., K] of f32, f16 or bf16, of numpy, PyTorch or JAX (also
      under `jit`). K must be a multiple of the dimension.
    inverse: Undo the rotation.
    dimension: 16, 32, 64 or 128.
    mask: The sign mask. None uses the default.
    output: The type of the result, which is rounded once. None uses the type of
      x.
    dtype: "bf16" if x is uint16 and has the bits of bf16.

  Returns:
    An array of x's library and shape.

  Raises:
    quantd.Invalid: The shape or the type of x is invalid.

  Example:
    >>> x = np.arange(16, dtype=np.float32)
    >>> bool((apply_rht(apply_rht(x), inverse=True) == x).all())
    True
  """
  wanted = None if output is None else DTYPES.float_word("output", output)
  xp, t, word = _rotate(x, inverse, dimension, mask, dtype)
  return _rounded(xp, t, wanted or word).reshape(tuple(x.shape))


def rht_amax(
  x: Any, *, dimension: int = 16, mask: Mask = None, dtype: DType | None = None
) -> Any:
  """Returns the largest magnitude after rotation along the last dimension.

  As in quantization, rotated values are rounded to bf16 and NaN is ignored.
  Transpose x to rotate its columns.

  Returns:
    An fp32 scalar of x's library.

  Example:
    >>> float(rht_amax(np.ones((2, 16), np.float32)))
    2.0
  """
  xp, t, _ = _rotate(x, False, dimension, mask, dtype)
  magnitude = abs(_floats(xp, _rounded(xp, t, "bf16"), "bf16"))
  if xp.__name__ == "torch":
    known = magnitude.nan_to_num(0.0, math.inf)
    return known.max() if known.numel() else known.new_zeros(())
  known = xp.where(xp.isnan(magnitude), np.float32(0), magnitude)
  return known.max(initial=0)
