"""The randomized Hadamard transform, here and not on a server.

On arrays of numpy, PyTorch and JAX alike, and bit-equal to `apply_rht` of a
connection: products and sums are those of fp32, in the order that FORMATS.md
promises. XLA flushes subnormal numbers to zero on some devices; there, results
below 2^-126 differ.

The names are near those of TransformerEngine's JAX utilities; `README.md` of
the package says which is which.
"""

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from quantd.errors import Invalid
from quantd.tensors import arrays
from quantd.tensors.elements import library_of, numpy_dtype
from quantd.values import flag, is_list, shown, whole
from quantd.words import DTYPES, FLOATS

__all__ = [
  "apply_rht",
  "hadamard_matrix",
  "rht_amax",
  "rht_matrix",
  "sign_mask",
  "sign_vector",
]

DIMENSIONS = (16, 32, 64, 128)
# Bits of the default signs, repeated for larger dimensions.
DEFAULT_SIGN_MASK = 0xD7E8

Mask = int | None


def _checked(dimension: Any) -> int:
  if isinstance(dimension, int) and dimension in DIMENSIONS:
    return dimension
  field = "rht.dimension"
  try:
    found = whole(field, dimension, 16, 128)
  except Invalid:
    found = 0
  if found not in DIMENSIONS:
    raise Invalid.of(field, "16, 32, 64 or 128", shown(dimension))
  return found


def _mask(mask: Mask, dimension: int) -> int:
  if mask is None:
    return sum(DEFAULT_SIGN_MASK << at for at in range(0, dimension, 16))
  try:
    return whole("mask", mask, 0, (1 << dimension) - 1)
  except Invalid as wrong:
    raise Invalid.of("mask", f"{dimension} bits", wrong.got) from None


def sign_vector(dimension: int = 16, mask: Mask = None) -> Any:
  """The signs of a mask: an int8 array of 1 and -1.

  Args:
    dimension: 16, 32, 64 or 128.
    mask: Bit i is set where sign i is -1; None: those of TransformerEngine and
      torchao.

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
  """The mask of signs: bit i is set where sign i is -1.

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


def _float(field: str, word: Any) -> str:
  """The word of a type that tensors have."""
  return DTYPES.word(DTYPES.parse(field, word, FLOATS))


def _factor(dimension: int) -> np.float32:
  return np.float32(1 / math.sqrt(dimension))


def hadamard_matrix(dimension: int = 16) -> Any:
  """H[i][j] = (-1)^popcount(i & j), not scaled: int8 [dimension, dimension].

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
  dimension: int = 16, mask: Mask = None, dtype: str = "bf16", like: Any = None
) -> Any:
  """R = diag(signs) H / sqrt(dimension), so that a row x becomes x R.

  Args:
    dimension: 16, 32, 64 or 128.
    mask: The signs; None: the default.
    dtype: "f32", "f16" or "bf16"; entries are rounded once.
    like: "numpy", "torch", "jax" or an array.

  Returns:
    [dimension, dimension].

  Example:
    >>> float(rht_matrix(dtype="f32")[3, 0])
    -0.25
  """
  library = arrays.library_for(like)
  dtype = _float("dtype", dtype)
  dimension = _checked(dimension)
  signs = sign_vector(dimension, mask).astype(np.float32)
  r = signs[:, None] * (hadamard_matrix(dimension) * _factor(dimension))
  rounded = _Numpy.rounded(r, dtype)
  if library == "torch":
    return _numpy_to_torch(rounded, dtype)
  return arrays.to_jax(rounded) if library == "jax" else rounded


class _Numpy:
  """What the transform needs of a library; numpy's."""

  @staticmethod
  def floats(x: Any, dtype: str) -> Any:
    if dtype == "bf16":
      bits = np.ascontiguousarray(x).view(np.uint16).astype(np.uint32) << 16
      return bits.view(np.float32)
    return np.asarray(x).astype(np.float32)

  @staticmethod
  def scaled(x: Any, factors: Any) -> Any:
    """The bits of fmaf(x, factor, +0): the product, but +0 where x is 0."""
    return np.where(x == 0, np.float32(0), x * factors)

  @staticmethod
  def stack(a: Any, b: Any) -> Any:
    return np.stack((a, b), -2)

  @staticmethod
  def rounded(x: Any, dtype: str) -> Any:
    """To the type, to nearest even; every NaN is the same."""
    x = np.where(np.isnan(x), np.float32(np.nan), x).astype(np.float32)
    x = np.abs(x, where=np.isnan(x), out=x)
    if dtype == "f32":
      return x
    if dtype == "f16":
      with np.errstate(over="ignore"):
        return x.astype(np.float16)
    bits = x.view(np.uint32)
    nearest = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
    half = np.where(np.isnan(x), np.uint32(0x7FC0), nearest).astype(np.uint16)
    return half.view(numpy_dtype("bf16"))


class _Torch(_Numpy):
  @staticmethod
  def floats(x: Any, dtype: str) -> Any:
    del dtype
    return x.float()

  @staticmethod
  def scaled(x: Any, factors: Any) -> Any:
    factors = sys.modules["torch"].from_numpy(factors).to(x.device)
    return (x * factors).masked_fill(x == 0, 0.0)

  @staticmethod
  def stack(a: Any, b: Any) -> Any:
    return sys.modules["torch"].stack((a, b), -2)

  @staticmethod
  def rounded(x: Any, dtype: str) -> Any:
    torch = sys.modules["torch"]
    types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    return x.masked_fill(torch.isnan(x), math.nan).to(types[dtype])


class _Jax(_Numpy):
  @staticmethod
  def floats(x: Any, dtype: str) -> Any:
    del dtype
    return x.astype("float32")

  @staticmethod
  def scaled(x: Any, factors: Any) -> Any:
    import jax.numpy as jnp

    # XLA contracts a product and the sum after it into one operation. Signs
    # that alternate, and are taken back by a choice, leave it no product there.
    odd = np.arange(len(factors)) % 2 == 1
    product = x * np.where(odd, -factors, factors)
    product = jnp.where(odd, -product, product)
    return jnp.where(x == 0, jnp.float32(0), product)

  @staticmethod
  def stack(a: Any, b: Any) -> Any:
    import jax.numpy as jnp

    return jnp.stack((a, b), -2)

  @staticmethod
  def rounded(x: Any, dtype: str) -> Any:
    import jax.numpy as jnp

    types = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16}
    return jnp.where(jnp.isnan(x), jnp.float32(jnp.nan), x).astype(types[dtype])


_LIBRARIES: dict[str, type[_Numpy]] = {
  "numpy": _Numpy,
  "torch": _Torch,
  "jax": _Jax,
}


def _dtype_of(x: Any, dtype: str | None) -> str:
  text = str(x.dtype).removeprefix("torch.")
  words = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
  if dtype is not None:
    dtype = _float("tensor.dtype", dtype)
  if dtype == "bf16" and text == "uint16":
    return dtype
  if text not in words:
    raise Invalid.of("tensor.dtype", "f32, f16 or bf16", text)
  if dtype not in (None, words[text]):
    raise Invalid.of("tensor.dtype", f"elements of {dtype}", text)
  return words[text]


def _stages(lib: type[_Numpy], t: Any, n: int) -> Any:
  """(a, b) -> (a + b, a - b) for the strides 1, 2, .. n / 2 of blocks of n."""
  stride = 1
  while stride < n:
    pairs = t.reshape((-1, 2, stride))
    a, b = pairs[:, 0], pairs[:, 1]
    t = lib.stack(a + b, a - b)
    stride *= 2
  return t.reshape((-1, n))


def _rotate(
  x: Any, inverse: bool, dimension: int, mask: Mask, dtype: str | None
) -> tuple[type[_Numpy], Any, str]:
  """The rotated values in fp32, in blocks; the library and the type of x."""
  library = library_of(x)
  lib = _LIBRARIES.get(library)
  if lib is None:
    raise Invalid.of(
      "tensor", "an array of numpy, torch or jax", type(x).__name__
    )
  arrays.refuse_mask(x, "tensor")
  word = _dtype_of(x, dtype)
  inverse = flag("inverse", inverse)
  dimension = _checked(dimension)
  bits = _mask(mask, dimension)
  if len(x.shape) == 0 or x.shape[-1] % dimension:
    got = "none" if len(x.shape) == 0 else str(x.shape[-1])
    expected = f"a last dimension that is a multiple of {dimension}"
    raise Invalid.of("tensor.shape", expected, got)
  values = lib.floats(x, word).reshape((-1, dimension))
  signs = sign_vector(dimension, bits).astype(np.float32)
  factor = _factor(dimension)
  before = np.full(dimension, factor) if inverse else signs * factor
  with np.errstate(invalid="ignore", over="ignore"):
    t = _stages(lib, lib.scaled(values, before), dimension)
    if inverse:
      t = lib.scaled(t, signs)
  return lib, t, word


def apply_rht(
  x: Any,
  inverse: bool = False,
  *,
  dimension: int = 16,
  mask: Mask = None,
  output: str | None = None,
  dtype: str | None = None,
) -> Any:
  """Rotates blocks along the last dimension, forward or back.

  Args:
    x: [..., K] of f32, f16 or bf16, of numpy, PyTorch or JAX; K a multiple of
      the dimension. In JAX also under `jit`.
    inverse: Rotate back.
    dimension: 16, 32, 64 or 128.
    mask: The signs; None: the default.
    output: The type of the result, to which it is rounded once; None: that of
      x.
    dtype: "bf16" where x is uint16 with its bits.

  Returns:
    An array of x's library and shape.

  Raises:
    quantd.Invalid: The shape or the type of x is no good.

  Example:
    >>> x = np.arange(16, dtype=np.float32)
    >>> bool((apply_rht(apply_rht(x), inverse=True) == x).all())
    True
  """
  wanted = None if output is None else _float("output", output)
  lib, t, word = _rotate(x, inverse, dimension, mask, dtype)
  return lib.rounded(t, wanted or word).reshape(tuple(x.shape))


def rht_amax(
  x: Any, *, dimension: int = 16, mask: Mask = None, dtype: str | None = None
) -> Any:
  """The largest magnitude after rotation along the last dimension.

  Of values rounded to bf16, NaN left out, as quantizing takes it. Transpose x
  for the rotation of its columns.

  Returns:
    A scalar of fp32, of x's library.

  Example:
    >>> float(rht_amax(np.ones((2, 16), np.float32)))
    2.0
  """
  lib, t, _ = _rotate(x, False, dimension, mask, dtype)
  if lib is _Numpy:
    found = np.abs(_Numpy.floats(_Numpy.rounded(t, "bf16"), "bf16"))
    return np.max(found, initial=np.float32(0), where=~np.isnan(found))
  magnitude = abs(lib.floats(lib.rounded(t, "bf16"), "bf16"))
  if lib is _Jax:
    import jax.numpy as jnp

    known = jnp.where(jnp.isnan(magnitude), jnp.float32(0), magnitude)
    return known.max(initial=0)
  known = magnitude.nan_to_num(0.0, math.inf)
  return known.max() if known.numel() else known.new_zeros(())


def _numpy_to_torch(a: Any, dtype: str) -> Any:
  import torch

  if dtype == "bf16":
    bits = np.ascontiguousarray(a).view(np.int16)
    return torch.from_numpy(bits.copy()).view(torch.bfloat16)
  return torch.from_numpy(np.ascontiguousarray(a))
