"""Tests that values of wrong types raise typed errors, for every option.

The values are derived from the annotations of `QuantizeKeywords`, so that new
options are tested without being listed here.
"""

import collections
import decimal
import typing

import numpy as np
import pytest

import quantd
from quantd import quantd_pb2 as pb
from quantd.options import QuantizeKeywords

BEYOND = 10**5000  # a number that Python refuses to print


class Unwritable:
  """A value without repr, order and truth value."""

  def __repr__(self):
    raise RuntimeError("no text")

  def __bool__(self):
    raise RuntimeError("no truth")


# Values by kind. A test skips the kinds that the option's annotation allows.
VALUES = {
    "nothing": [None],
    "truth": [True, False, np.True_],
    "whole": [-1, 3, 2**64, BEYOND, np.int64(-1)],
    "real": [1.5, float("nan"), float("inf"), 10.0**300, np.float32(1.5),
             decimal.Decimal("0.5")],
    "text": ["", "no", "NVFP4 ", "0xZ", "0x_1", "\ud800", np.str_("1")],
    "bytes": [bytearray(b"1"), memoryview(b"12")],
    "complex": [1j, np.complex64(1j)],
    "numbers": [[-1.0], (1.5, 2.5), np.ones(2), collections.deque([1.5])],
    "wholes": [[-1], (1, 2, 3, 4), np.arange(5)],
    "table": [np.ones((2, 2)), np.ones((1, 1)), [[1.0]], [[1], [2, 3]]],
    "mapping": [{"middle": 1}, {1: 2}, {}],
    "other": [object(), Unwritable(), type, len, {1.0, 2.0}, frozenset({1}),
              range(0), [], [None], [True], ["1"], [BEYOND], [Unwritable()],
              np.ma.masked_array([1.0], [True]), np.array(["1"]), np.array([]),
              np.array([None]), np.array(True), np.array([True]),
              np.datetime64(1, "s"), np.zeros(3, "V4"), (v for v in (1.0, 2.0))],
}
# Kinds of VALUES that each part of an annotation allows.
TAKES = {
    bool: {"truth"}, int: {"whole"}, float: {"whole", "real"}, str: {"text"},
    bytes: {"bytes"}, type(None): {"nothing"},
}
# Options that must be present for another to be checked.
BESIDE = {
    "rht_dimension": {"rht": "rowwise"}, "sign_mask": {"rht": "rowwise"},
    "seed_offset": {"stochastic": 1}, "shard": {"stochastic": 1},
    "history_rule": {"history": [1.0]}, "history_margin": {"history": [1.0]},
    "partial_splits": {"splits": [96]},
}
HINTS = typing.get_type_hints(QuantizeKeywords)


def taken(hint):
  """Returns the kinds of values that an annotation allows."""
  origin = typing.get_origin(hint)
  if hint in TAKES:
    return TAKES[hint]
  if origin in (collections.abc.Sequence, tuple):
    of = typing.get_args(hint)[0]
    return {"wholes"} if of is int else {"numbers", "wholes"}
  if origin is collections.abc.Mapping:
    return {"mapping"}
  return set().union(*map(taken, typing.get_args(hint)))


@pytest.mark.parametrize("option", list(HINTS))
def test_values_of_another_type(q, x, option):
  """Every call refuses them. So does `from_parts`, which makes no call."""
  legal = taken(HINTS[option])
  assert legal, f"{option}: no kind of values is known for {HINTS[option]}"
  calls = (lambda **k: q.quantize(x, "nvfp4", **k),
           lambda **k: q.plan((96, 160), "nvfp4", **k),
           lambda **k: quantd.QuantizedTensor.from_parts((96, 160), "nvfp4", {}, **k))
  for kind, values in VALUES.items():
    # A value of the right type may conflict with another option.
    for call in calls[:1] if kind in legal else calls:
      for at, value in enumerate(values):
        try:
          call(**{**BESIDE.get(option, {}), option: value})
          assert kind in legal, f"{option} accepted VALUES[{kind!r}][{at}]"
        except quantd.Invalid as error:
          named = option in error.field.replace(".", "_")
          assert named or kind in legal, (kind, at, error.field)
          assert error.expected and error.got, (kind, at)


def test_a_name_that_is_no_option(q, x):
  for call in (lambda: q.quantize(x, "nvfp4", epsilom=1),
               lambda: q.plan((96, 160), "nvfp4", epsilom=1),
               lambda: quantd.Quantizer(q, epsilom=1),
               lambda: quantd.Quantizer(q)(x, epsilom=1)):
    with pytest.raises(TypeError, match="did you mean 'epsilon'"):
      call()


def test_lists_that_are_too_long(q, x):
  with pytest.raises(quantd.TooLarge, match="4194304 bytes"):
    q.quantize(x, "fp8_e4m3", scale=np.ones(2**20 + 1, np.float32))


def test_numbers_of_every_library_are_accepted(q, x):
  """Lists of one number, enums as numbers, and sign masks as text are accepted, too."""
  want = q.quantize(x, "nvfp4", given_amax=2.0).rowwise.codes
  for amax in (2, np.float64(2), np.array(2.0), [2.0], (2,), np.array([2.0]),
               np.array([2]), decimal.Decimal(2), {"rowwise": np.float16(2)}):
    got = q.quantize(x, "nvfp4", given_amax=amax).rowwise.codes
    assert np.array_equal(want, got), amax
  number = pb.USAGE_BOTH
  assert q.quantize(x, "nvfp4", usage=number).usage == "both"
  with pytest.raises(quantd.Invalid):
    q.quantize(x, "nvfp4", usage=float(number))
  signs = [0xD7E8, "0xD7E8", "d7e8", b"\xe8\xd7", np.uint16(0xD7E8)]
  made = [q.quantize(x, "nvfp4", rht="rowwise", sign_mask=s) for s in signs]
  assert len({t.rowwise.codes.tobytes() for t in made}) == 1
