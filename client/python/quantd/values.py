"""Strict checks of arguments: an invalid value raises `Invalid`.

Text and truth values are not numbers. A list must have an order, and must be
iterable more than once.
"""

import contextlib
import math
import operator
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from quantd.errors import Invalid

# The smallest magnitude that fp32 rounds to Inf.
_BEYOND_FP32 = 3.4028235677973366e38


def shown(value: Any) -> str:
  """A short description of a value for the `got` of an error; never fails.

  Example:
    >>> shown(10**5000)
    'a whole number of 16610 bits'
  """
  if isinstance(value, int) and value.bit_length() > 1024:
    # Python refuses to print such large numbers.
    return f"a whole number of {value.bit_length()} bits"
  try:
    return repr(value)[:80]
  except Exception:  # noqa: BLE001 A stranger's repr may raise anything.
    return f"of type {type(value).__name__}"


def flag(field: str, value: Any) -> bool:
  """True or False, and nothing that only compares equal."""
  if isinstance(value, (bool, np.bool_)):
    return bool(value)
  raise Invalid.of(field, "True or False", shown(value))


def whole(field: str, value: Any, low: int, high: int) -> int:
  """An integer in the range of its field, of any library's type."""
  number = None
  if not isinstance(value, (bool, np.bool_)):
    with contextlib.suppress(TypeError):
      number = operator.index(value)
  if number is None or not low <= number <= high:
    expected = f"a whole number from {low} to {high}"
    raise Invalid.of(field, expected, shown(value))
  return number


def is_list(values: Any) -> bool:
  """Whether it has a length and an order: a list, a tuple, an array."""
  raw = (str, bytes, bytearray, memoryview)
  if isinstance(values, (*raw, Mapping, AbstractSet)):
    return False
  try:
    return len(values) >= 0 and getattr(values, "ndim", 1) == 1
  except TypeError:
    return False


def number(field: str, value: Any) -> float:
  """One number in the range of fp32, NaN or Inf; also a 0-dimensional array."""
  try:
    return _float(value)
  except (TypeError, ValueError, OverflowError):
    raise Invalid.of(field, "a number of fp32", shown(value)) from None


def numbers(field: str, values: Any) -> list[float]:
  """One number or several, as a list; takes arrays, too."""
  if isinstance(values, np.ma.MaskedArray):
    raise Invalid.of(field, "numbers without a mask", "some with one")
  several = is_list(values)
  if several and isinstance(values, np.ndarray):
    values = values.tolist()
  try:
    found = [_float(v) for v in (values if several else [values])]
  except (TypeError, ValueError, OverflowError):
    expected = "a number or several, of fp32"
    raise Invalid.of(field, expected, shown(values)) from None
  if not found:
    raise Invalid.of(field, "a number or several", "none")
  return found


def _float(value: Any) -> float:
  """Converts a number of fp32, NaN or Inf to float; refuses anything else."""
  no_numbers = (str, bytes, bytearray, bool, np.bool_, complex)
  if isinstance(value, (*no_numbers, np.complexfloating)):
    raise TypeError("not a number")
  if getattr(value, "ndim", 0) != 0:
    raise TypeError("several")
  if "bool" in str(getattr(value, "dtype", "")):
    raise TypeError("a truth value")
  converted = float(value)
  if abs(converted) > _BEYOND_FP32 and not math.isinf(converted):
    raise OverflowError("beyond fp32")
  return converted
