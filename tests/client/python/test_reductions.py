"""Tests of amaxes reduced over several processes, and of a quantizer's settings."""

import sys

import numpy as np
import pytest

import quantd
from conftest import refused, same

SPLITS = [32, 64]


def poisoned(x, value, row):
  bad = x.copy()
  bad[row, 4] = value
  return bad


@pytest.mark.parametrize("policy", ["ignore", "propagate"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", ["nvfp4", "fp8_e4m3", "fp8_channel_e4m3"])
def test_of_non_finite_amaxes(q, x, name, policy, value):
  """A reduction that returns the same amaxes changes no byte."""
  keywords = {"non_finite": policy}
  if name == "nvfp4":
    keywords["with_rht"] = True
  with_one = quantd.Quantizer(q, name, amax_reduction=lambda a: a, **keywords)
  without = quantd.Quantizer(q, name, **keywords)
  bad = poisoned(x, value, 3)
  same(with_one(bad), without(bad))
  if name != "fp8_channel_e4m3":
    same(with_one.quantize_groups(bad, SPLITS), without.quantize_groups(bad, SPLITS))


def test_of_groups_with_one_non_finite_amax(q, x):
  """Amaxes that other processes increased must not be dropped silently."""
  bad = poisoned(x, np.inf, 3)
  larger = quantd.Quantizer(q, columnwise=False, amax_reduction=lambda a: a * 3)
  with pytest.raises(quantd.Invalid, match="a larger amax in another") as caught:
    larger.quantize_groups(bad, SPLITS)
  assert caught.value.field == "amax_reduction"
  t = larger.quantize_groups(x, SPLITS)
  assert np.array_equal(t.amax, 3 * np.array(
      [np.abs(x[:32]).max(), np.abs(x[32:]).max()], np.float32))


def test_of_groups_that_end_before_the_rows(q, x):
  quantizer = quantd.Quantizer(
      q, columnwise=False, partial_splits=True, amax_reduction=lambda a: a)
  t = quantizer.quantize_groups(x, [32])
  assert t.amax == np.abs(x[:32]).max()


def test_with_an_estimate(q, x):
  keywords = {"with_rht": True, "amax_estimation_scale": 1.7}
  plain = quantd.Quantizer(q, **keywords)(x)
  same(quantd.Quantizer(q, amax_reduction=lambda a: a, **keywords)(x), plain)
  t = quantd.Quantizer(q, amax_reduction=lambda a: a * 2, **keywords)(x)
  assert t.rowwise.amax == 2 * np.abs(x).max()
  assert t.columnwise.amax == t.rowwise.amax * np.float32(1.7)


def test_is_not_called_with_a_given_scale(q, x):
  def never(amaxes):
    raise AssertionError("a given scale needs no amax")

  quantizer = quantd.Quantizer(q, "fp8_e4m3", columnwise=False, amax_reduction=never)
  quantizer.set_delayed_scaling(np.array([1, 2], np.float32), np.ones(4))
  t = quantizer.quantize_groups(x, SPLITS)
  assert t.part("next_scale").shape == (2,)
  assert t.groups == 2 and t.group(1).shape == (64, 160)
  quantizer.set_delayed_scaling(2.0)
  assert "next_scale" not in quantizer(x).parts


def test_of_one_call(q, x):
  """Options of one call also apply to its amaxes."""
  bad = poisoned(x, np.nan, 3)
  quantizer = quantd.Quantizer(q, columnwise=False, amax_reduction=lambda a: a)
  same(quantizer(bad, non_finite="propagate"),
       q.quantize(bad, "nvfp4", non_finite="propagate"))
  for name, value in (("usage", "rowwise"), ("given_amax", 1.0), ("rht", "both")):
    refused(name, quantizer, x, **{name: value})
  with pytest.raises(quantd.Invalid, match="quantize_groups"):
    quantizer(x, splits=SPLITS)


@pytest.mark.parametrize("returned", [
    [True], ["3.5"], np.array([1j]), np.array([True]), {1: 2}, 10**5000],
    ids=["truth", "text", "complex", "truths", "mapping", "beyond"])
def test_with_invalid_return_values(q, x, returned):
  quantizer = quantd.Quantizer(q, columnwise=False, amax_reduction=lambda a: returned)
  refused("amax_reduction", quantizer, x)


def test_by_pytorch_if_not_installed(q, x, monkeypatch):
  monkeypatch.setitem(sys.modules, "torch", None)
  with pytest.raises(quantd.Invalid, match="PyTorch is not installed"):
    quantd.Quantizer(q, with_amax_reduction=True)(x)


def test_by_pytorch_without_processes(q, x):
  pytest.importorskip("torch", reason="PYTORCH IS NOT INSTALLED")
  with pytest.raises(quantd.Invalid, match="init_process_group"):
    quantd.Quantizer(q, with_amax_reduction=True)(x)


# --- settings of a quantizer --------------------------------------------------


@pytest.mark.parametrize("name, values", [
    ("rowwise", ["no", 1, None]), ("columnwise", ["no", 0]),
    ("with_rht", ["sideways", 1, ["rowwise"], ""]),
    ("with_random_sign_mask", ["no", 1]), ("with_2d_quantization", ["no", 1]),
    ("stochastic_rounding", ["no", 1, None]), ("seed", ["7", -1, 1.0, True, 2**64]),
    ("with_amax_reduction", ["no", 1]), ("amax_reduction", [3, "max", [len]]),
    ("block_dims", [16, (16,), "ab", (1, 16, 16)]), ("fp8_dtype", [["e4m3"], 3]),
    ("format", [["nvfp4"], None, "nvfp5"]),
])
def test_wrong_values_of_the_constructor(q, name, values):
  for value in values:
    refused(name, quantd.Quantizer, q, **{name: value})


def test_wrong_values_later_on(q):
  quantizer = quantd.Quantizer(q, "fp8_e4m3")
  refused("rowwise", quantizer.set_usage, rowwise="no")
  refused("columnwise", quantizer.set_usage, columnwise=1)
  refused("scale", quantizer.set_delayed_scaling, "1")
  refused("history.amax", quantizer.set_delayed_scaling, 1.0, "x")
  refused("connection", quantd.Quantizer, None)
  assert not quantizer.keywords


def test_a_history_with_nan(q, x):
  """WIRE.md allows NaN in a history: `propagate` writes it, and later calls accept it.
  """
  keywords = {"scale": 1.0, "non_finite": "propagate"}
  t = q.quantize(poisoned(x, np.nan, 3), "fp8_e4m3", history=[1.0, 2.0], **keywords)
  history = t.part("amax_history")
  assert np.isnan(history).any()
  after = q.quantize(x, "fp8_e4m3", history=history, **keywords)
  assert np.isfinite(after.part("next_scale")).all()


def test_a_reduction_gets_the_amax_of_all_fused_weights(q, x):
  seen = []

  def largest(amaxes):
    seen.append(amaxes.copy())
    return amaxes

  t = quantd.Quantizer(q, amax_reduction=largest)(x, fused=[10 * x])
  plain = q.quantize(x, "nvfp4", fused=[10 * x])
  assert seen[0][0] == plain.amax[0] == np.float32(10) * np.abs(x).max()
  for ours, theirs in zip((t, *t.fused), (plain, *plain.fused), strict=True):
    assert np.array_equal(ours.rowwise.codes, theirs.rowwise.codes)


def test_calls_may_skip_the_reduction(q, x):
  off = quantd.Quantizer(
      q, with_amax_reduction=False, amax_reduction=lambda a: a * 3)
  assert off(x).amax == np.abs(x).max()
  assert quantd.Quantizer(q, amax_reduction=lambda a: a * 3)(x).amax > off(x).amax


def test_keywords_of_a_quantizer(q):
  for name, instead in (("rht", "with_rht="), ("usage", "rowwise="),
                        ("splits", "quantize_groups"), ("stochastic", "stochastic_r")):
    with pytest.raises(quantd.Invalid, match=instead):
      quantd.Quantizer(q, **{name: "columnwise"})
  quantizer = quantd.Quantizer(q, stochastic_rounding=True, with_rht=True, epsilon=0.0)
  shown = repr(quantizer)
  assert shown == repr(quantizer), "repr draws a seed"
  for words in ("nvfp4", "stochastic_rounding=True", "with_rht='columnwise'",
                "epsilon=0.0"):
    assert words in shown
