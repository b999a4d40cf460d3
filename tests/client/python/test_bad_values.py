"""Wrong values, of every argument that there is: a typed error, by both engines."""

import datetime
import json
import threading

import numpy as np
import pytest

import quantd
from quantd import aio, hadamard
from quantd.options import QuantizeKeywords

HUGE = 10**400
WORDS = [3.5, ["nvfp4"], {"rowwise"}, True, "NVFP4 ", b"te", -1, 10**9]
FLAGS = ["no", "yes", 2, 0, [True], 1.0]
NUMBERS = ["3", b"1", HUGE, [], ["1"], {}, object(), [[1, 2], [3]]]
WHOLE = [1.9, "3", True, HUGE, -1, [1], None]
# What is wrong for each option; a new one has to be put here.
WRONG = {
    "usage": WORDS, "profile": WORDS, "rht": [w for w in WORDS if w is not None],
    "rht_dimension": WHOLE, "sign_mask": [1.9, "x", HUGE, [1], object()],
    "non_finite": WORDS, "given_amax": NUMBERS + ["x", {"middle": 1}],
    "amax_estimation_scale": NUMBERS, "scale_layout": WORDS,
    "compact_scales": FLAGS, "row_scaled": FLAGS, "scale_256": FLAGS,
    "stochastic": [1.5, "7", -1, HUGE, [1]], "seed_offset": WHOLE[:-1],
    "shard": [1, (1, 2), (1, 2, "3"), (1.5, 0, 1), (0, 0, HUGE), "abc"],
    "four_over_six": WORDS, "fast_error": FLAGS, "epsilon": NUMBERS,
    "power_of_two": FLAGS, "scale": NUMBERS, "history": NUMBERS,
    "history_rule": WORDS, "history_margin": [1.5, "1", HUGE, [0]],
    "scale_rule": WORDS, "splits": [1, "ab", b"ab", [1.5], [True], object(), [HUGE]],
    "partial_splits": FLAGS, "amax": FLAGS, "dbias": [2, [True], "f8", 1.0],
    "statistics": FLAGS,
}
# What has to stand beside an option for it to be looked at.
BESIDE = {
    "rht_dimension": {"rht": "rowwise"}, "sign_mask": {"rht": "rowwise"},
    "seed_offset": {"stochastic": 1}, "shard": {"stochastic": 1},
    "history_rule": {"history": [1.0]}, "history_margin": {"history": [1.0]},
    "partial_splits": {"splits": [96]},
}


def test_every_option_has_wrong_values():
  assert set(WRONG) == set(QuantizeKeywords.__annotations__)


@pytest.mark.parametrize("option", list(WRONG))
def test_options(q, x, option):
  for value in WRONG[option]:
    keywords = {**BESIDE.get(option, {}), option: value}
    with pytest.raises(quantd.Invalid) as caught:
      q.quantize(x, "nvfp4", **keywords)
    # On the wire some are parts of a message.
    named = caught.value.field.replace(".", "_")
    assert option in named, (value, named)


@pytest.mark.parametrize("arguments, field", [
    ({"format": ["nvfp4"]}, "format"), ({"dtype": "f8"}, "tensor.dtype"),
    ({"fused": np.ones((2, 160), np.float32)}, "fused"), ({"fused": None}, "fused"),
    ({"out": np.zeros(4096, np.uint8)}, "out"), ({"out": [1]}, "out"),
    ({"timeout": "3"}, "timeout"), ({"timeout": datetime.timedelta(1)}, "timeout"),
    ({"timeout": HUGE}, "timeout"), ({"timeout": 1e10}, "timeout"),
    ({"timeout": float("nan")}, "timeout"), ({"timeout": True}, "timeout"),
    ({"cancel": threading.Event()}, "cancel"),
    ({"shard": (0, 0, 160)}, "shard"),
    ({"fused": [np.ones((5, 160), np.float32)], "usage": "both", "rows": 17},
     "tensor"),
])
def test_arguments_of_a_call(q, x, arguments, field):
  keywords = {"format": "nvfp4", **arguments}
  rows = keywords.pop("rows", len(x))
  with pytest.raises(quantd.Invalid) as caught:
    q.quantize(x[:rows], **keywords)
  assert caught.value.field == field


def test_what_is_no_tensor(q, x):
  t = q.quantize(x, "nvfp4")
  calls = {
      "t": lambda: q.dequantize(x),
      "dtype": lambda: t.dequantize("f8"),
      "rotated": lambda: t.dequantize(rotated="no"),
      "inverse": lambda: q.apply_rht(x, inverse="no"),
      "like": lambda: t.dequantize(out=np.empty_like(x), like="numpy"),
      "tensor.shape": lambda: q.plan(64),
      "tensors": lambda: q.quantize_all([x]),
      "at_once": lambda: q.quantize_all({"x": x}, at_once=0),
      "max_in_flight": lambda: aio.connect("127.0.0.1:1", max_in_flight=0),
      "rows": lambda: t.rows("0", 1),
      "shape": lambda: t.view(8.0, 12, 160),
      "parts": lambda: quantd.QuantizedTensor.from_parts((4, 16), "nvfp4", None),
      "input_amax": lambda: t.to_modelopt("m", input_amax="z"),
      "mask": lambda: hadamard.apply_rht(x, mask="0x1"),
      "tensor": lambda: q.quantize(np.ma.masked_array(x, x > 0)),
  }
  for field, call in calls.items():
    with pytest.raises(quantd.Invalid) as caught:
      call()
    assert caught.value.field == field
  with pytest.raises(quantd.Invalid, match="16, 32, 64 or 128"):
    hadamard.sign_mask([1] * 15)
  with pytest.raises(quantd.Invalid):
    q.plan(None)


@pytest.mark.parametrize("settings, field", [
    ({"target": None}, "target"), ({"target": 5}, "target"),
    ({"target": ["a:1"]}, "target"), ({"target": "127.0.0.1:106109"}, "target"),
    ({"target": "127.0.0.1:0"}, "target"), ({"target": "127.0.0.1:abc"}, "target"),
    ({"target": "gpu-a:65536"}, "target"), ({"tls": "yes"}, "tls"),
    ({"token": 3}, "token"), ({"token_file": 3}, "token_file"),
    ({"retry": 3}, "retry"), ({"engine": "zz"}, "engine"),
    ({"engine": ["grpc"]}, "engine"), ({"channels": 1.5}, "channels"),
    ({"channels": True}, "channels"), ({"deadline": "3"}, "deadline"),
    ({"deadline": HUGE}, "deadline"), ({"retry": quantd.Retry(max_attempts=1.5)},
                                       "retry.max_attempts"),
])
def test_settings(engine, settings, field):
  with pytest.raises(quantd.Invalid) as caught:
    quantd.connect(**{"target": "127.0.0.1:1", "engine": engine, **settings})
  assert caught.value.field == field


def test_a_name_that_nobody_knows_is_told(connect):
  for name in ("no-such-host.invalid", "a" * 300 + ".invalid"):
    with pytest.raises(quantd.Unavailable, match=name[:40]):
      connect(f"{name}:1").info(timeout=5)


def test_buffers_that_overlap_are_refused(q, x):
  whole = np.zeros(64 * 1024, np.uint8)
  size = q.plan(x.shape, "nvfp4", dtype="f32").parts
  codes = size["rowwise_data"].nbytes
  scales = size["rowwise_scale"].nbytes
  out = {"rowwise_data": whole[:codes], "rowwise_scale": whole[16:16 + scales]}
  with pytest.raises(quantd.Invalid, match="overlap"):
    q.quantize(x, "nvfp4", out=out)
  out["rowwise_scale"] = whole[codes:codes + scales]
  expected = q.quantize(x, "nvfp4")
  made = q.quantize(x, "nvfp4", out=out)
  assert np.array_equal(made.rowwise.codes, expected.rowwise.codes)
  assert np.array_equal(made.rowwise.scales, expected.rowwise.scales)


def test_a_tensor_is_not_changed(q, x):
  t = q.quantize(x, "nvfp4")
  for name in ("shape", "dtype", "flatten_axis", "options", "parts", "report", "fused"):
    with pytest.raises(AttributeError):
      setattr(t, name, None)
  with pytest.raises(TypeError):
    t.parts["x"] = 1


# --- the quantizer ------------------------------------------------------------


def test_a_reduction_sees_all_that_is_fused(q, x):
  seen = []

  def largest(amaxes):
    seen.append(amaxes.copy())
    return amaxes

  t = quantd.Quantizer(q, amax_reduction=largest)(x, fused=[10 * x])
  plain = q.quantize(x, "nvfp4", fused=[10 * x])
  assert seen[0][0] == plain.amax[0] == np.float32(10) * np.abs(x).max()
  for ours, theirs in zip((t, *t.fused), (plain, *plain.fused), strict=True):
    assert np.array_equal(ours.rowwise.codes, theirs.rowwise.codes)


def test_no_reduction_where_none_is_wanted(q, x):
  off = quantd.Quantizer(
      q, with_amax_reduction=False, amax_reduction=lambda a: a * 3)
  assert off(x).amax == np.abs(x).max()
  assert quantd.Quantizer(q, amax_reduction=lambda a: a * 3)(x).amax > off(x).amax


@pytest.mark.parametrize("policy", ["ignore", "propagate"])
def test_a_reduction_of_what_is_not_finite(q, x, policy):
  for value in (np.inf, np.nan):
    bad = x.copy()
    bad[3, 4] = value
    want = q.quantize(bad, "nvfp4", usage="both", non_finite=policy)
    made = quantd.Quantizer(
        q, rowwise=True, columnwise=True, non_finite=policy,
        amax_reduction=lambda a: a)(bad)
    for kind in ("rowwise_data", "rowwise_scale", "columnwise_data"):
      assert np.array_equal(made.part(kind).view(np.uint8),
                            want.part(kind).view(np.uint8)), (value, kind)
  with pytest.raises(quantd.Invalid, match="another process"):
    quantd.Quantizer(q, amax_reduction=lambda a: a + np.inf)(x)


@pytest.mark.parametrize("returned", [1.0, None, "x", [], [1, 2, 3], object()])
def test_rubbish_of_a_reduction(q, x, returned):
  quantizer = quantd.Quantizer(
      q, rowwise=True, columnwise=True, amax_reduction=lambda a: returned)
  with pytest.raises(quantd.Invalid) as caught:
    quantizer(x)
  assert caught.value.field == "amax_reduction"


def test_words_of_a_quantizer(q):
  for name, instead in (("rht", "with_rht="), ("usage", "rowwise="),
                        ("splits", "quantize_groups"), ("stochastic", "stochastic_r")):
    with pytest.raises(quantd.Invalid, match=instead):
      quantd.Quantizer(q, **{name: "columnwise"})
  with pytest.raises(TypeError, match="did you mean 'epsilon'"):
    quantd.Quantizer(q, epsilom=1)
  assert "nvfp4" in repr(quantd.Quantizer(q))


# --- files --------------------------------------------------------------------


def test_what_cannot_be_saved(q, x, tmp_path):
  t = q.quantize(x, "nvfp4")
  for tensors in ({}, {3: t}, {"a": 3}, {"\ud800": t}, [t], None):
    with pytest.raises(quantd.Invalid) as caught:
      quantd.save(tmp_path / "t", tensors)
    assert caught.value.field == "tensors"
  assert not list(tmp_path.iterdir())


def test_a_descriptor_is_no_path():
  with pytest.raises(TypeError):
    quantd.load(3)


def test_headers_that_lie(q, x, tmp_path):
  path = tmp_path / "t.safetensors"
  q.quantize(x, "nvfp4", usage="both").save(path)
  whole = path.read_bytes()
  length = int.from_bytes(whole[:8], "little")
  header, body = json.loads(whole[8:8 + length]), whole[8 + length:]

  def refused(head, body=body):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    with pytest.raises(quantd.Invalid):
      quantd.load(path)

  refused(b"[]")
  refused(b"[" * 50_000)
  refused(header, body + b"\0")
  refused(header, body[:-1])
  names = [name for name in header if name != "__metadata__"]
  for change in (lambda o: [float(v) for v in o], lambda o: o[:1],
                 lambda o: [v + 1 for v in o], lambda o: [o[1], o[0]],
                 lambda o: [0, o[1] - o[0]], lambda o: {"a": 1}):
    changed = json.loads(json.dumps(header))
    entry = changed[names[-1]]
    entry["data_offsets"] = change(entry["data_offsets"])
    refused(changed)
  path.write_bytes(whole)
  assert quantd.load(path).format == "nvfp4"
