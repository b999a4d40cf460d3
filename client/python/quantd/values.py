"""Strict checks of arguments: an invalid value raises `Invalid`.

Text, True and False are not numbers. A list must have an order, and must be
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
  """Describes a value for the `got` of an error. Never raises.

  Example:
    >>> shown(10**5000)
    'a whole number of 16610 bits'
  """
  if isinstance(value, int) and value.bit_length() > 1024:
    # Python refuses to print integers of that size.
    return f"a whole number of {value.bit_length()} bits"
  try:
    return repr(value)[:80]
  except Exception:  # noqa: BLE001 The object's repr may raise anything.
    return f"of type {type(value).__name__}"


def flag(field: str, value: Any) -> bool:
  """Accepts only True and False, and not 1 or 0, which compare equal."""
  if isinstance(value, (bool, np.bool_)):
    return bool(value)
  raise Invalid.of(field, "True or False", shown(value))


def whole(field: str, value: Any, low: int, high: int) -> int:
  """Accepts an integer of any library in the range of its field."""
  number = None
  if not isinstance(value, (bool, np.bool_)):
    with contextlib.suppress(TypeError):
      number = operator.index(value)
  if number is None or not low <= number <= high:
    expected = f"a whole number from {low} to {high}"
    raise Invalid.of(field, expected, shown(value))
  return number


def is_list(values: Any) -> bool:
  """Returns whether `values` has a length and an order, as lists have."""
  raw = (str, bytes, bytearray, memoryview)
  if isinstance(values, (*raw, Mapping, AbstractSet)):
    return False
  try:
    return len(values) >= 0 and getattr(values, "ndim", 1) == 1
  except TypeError:
    return False


def number(field: str, value: Any) -> float:
  """Accepts a number in the range of fp32, NaN, Inf or a 0-d array."""
  try:
    return _float(value)
  except (TypeError, ValueError, OverflowError):
    raise Invalid.of(
      field, "a number in the range of fp32", shown(value)
    ) from None


def within(field: str, value: Any, low: float, high: float) -> float:
  """Accepts a number in a range."""
  found = number(field, value)
  if not low <= found <= high:
    raise Invalid.of(field, f"{low:g} to {high:g}", shown(value))
  return found


def numbers(field: str, values: Any) -> list[float]:
  """Accepts a number, or a list or array of numbers. Returns a list."""
  if isinstance(values, np.ma.MaskedArray):
    raise Invalid.of(field, "numbers without a mask", "a masked array")
  several = is_list(values)
  if several and isinstance(values, np.ndarray):
    values = values.tolist()
  try:
    found = [_float(v) for v in (values if several else [values])]
  except (TypeError, ValueError, OverflowError):
    expected = "a number or a list of numbers in the range of fp32"
    raise Invalid.of(field, expected, shown(values)) from None
  if not found:
    raise Invalid.of(field, "a number or a list of numbers", "an empty list")
  return found


def _float(value: Any) -> float:
  """Converts a number to float. Refuses numbers that exceed fp32."""
  no_numbers = (str, bytes, bytearray, bool, np.bool_, complex)
  if isinstance(value, (*no_numbers, np.complexfloating)):
    raise TypeError("not a number")
  if getattr(value, "ndim", 0) != 0:
    raise TypeError("not a single number")
  if "bool" in str(getattr(value, "dtype", "")):
    raise TypeError("a boolean")
  converted = float(value)
  if abs(converted) > _BEYOND_FP32 and not math.isinf(converted):
    raise OverflowError("beyond fp32")
  return converted
