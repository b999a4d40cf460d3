"""Tests of arguments that are refused before anything is sent, and of their errors."""

import datetime
import os
import pathlib
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import quantd
from conftest import refused

TREE = pathlib.Path(__file__).resolve().parents[3]


# --- connections ---------------------------------------------------------------


@pytest.mark.parametrize("target", [
    "127.0.0.1:106109", "127.0.0.1:0", "127.0.0.1:abc", "127.0.0.1:-1",
    "gpu-a:http", "gpu-a:65536", "[::1]:70000", "ipv4:127.0.0.1:99999",
    "ipv6:[::1]:0", "dns:///gpu-a:0", "dns://127.0.0.1/gpu-a:77777",
    "127.0.0.1:50151,127.0.0.1:106109"])
def test_ports(connect, target):
  """gRPC would reduce a larger port modulo 2^16 and call another server."""
  error = refused("target", connect, target)
  assert error.expected == "a port from 1 to 65535"
  assert error.got == target.split(",")[-1]


def test_the_largest_port(connect):
  connect("127.0.0.1:65535,gpu-a:1,dns://127.0.0.1/gpu-a:65535,ipv4:127.0.0.1:9")


@pytest.mark.parametrize("target", [
    5, ["127.0.0.1:1"], b"127.0.0.1:1", "a" * 5000, "a..b"])
def test_targets(connect, target):
  assert len(str(refused("target", connect, target))) < 250


@pytest.mark.parametrize("field, settings", [
    ("tls", {"tls": "yes"}), ("tls", {"tls": 1}), ("token", {"token": 3}),
    ("tls.ca", {"tls": quantd.Tls(ca=3)}),
    ("tls.server_name", {"tls": quantd.Tls(server_name=3)}),
    ("token_file", {"token_file": "a\0b"}), ("token_file", {"token_file": b"a"}),
    ("retry", {"retry": 3}), ("retry.max_attempts", {"retry": quantd.Retry("a")}),
    ("retry.max_attempts", {"retry": quantd.Retry(1.5)}),
    ("retry.max_backoff", {"retry": quantd.Retry(max_backoff=None)}),
    ("channels", {"channels": 1.5}), ("channels", {"channels": True}),
    ("deadline", {"deadline": "3"}), ("deadline", {"deadline": float("nan")}),
    ("busy_poll", {"busy_poll": 0.2}), ("busy_poll", {"busy_poll": -1}),
    ("busy_poll", {"busy_poll": True}), ("busy_poll", {"busy_poll": "1"}),
    ("dead_peer_timeout", {"dead_peer_timeout": datetime.timedelta(1)}),
    *(("stream_from", {"stream_from": v})
      for v in (-1, 1.5, "0", True, 2**63, 10**5000)),
    *(("band_bytes", {"band_bytes": v})
      for v in (1, 262143, -1, 1.5, "4MiB", True, None, 2**63, 10**5000))])
def test_settings(engine, field, settings):
  refused(field, quantd.connect, "127.0.0.1:1", engine=engine, **settings)


@pytest.mark.parametrize("field, value", [
    ("band_bytes", 1 << 20), ("memory_socket", "/run/m"), ("busy_poll", 0.01),
    ("target", "local"), ("target", "local:cpu"), ("target", "local:cuda:0")])
def test_settings_of_the_native_engine_alone(field, value):
  settings = {"target": "127.0.0.1:1", field: value}
  error = refused(field, quantd.connect, engine="grpc", **settings)
  assert "install the native wheel" in error.expected


def test_the_package_as_a_program():
  """`python -m quantd` prints its version; only native wheels contain the server."""
  run = lambda *words: subprocess.run(
      [sys.executable, "-m", "quantd", *words], capture_output=True, text=True)
  told = run("--version").stdout.split()
  assert told == ["quantd", f"{quantd.__version__},", "engine", quantd.engine]
  server = run("--help")
  if quantd.engine == "native":
    assert server.returncode == 0 and "--listen" in server.stdout
  else:
    assert server.returncode == 1 and "QUANTD_NATIVE=1" in server.stderr


def test_engines():
  for engine in ("zz", "", 3):
    refused("engine", quantd.connect, "127.0.0.1:1", engine=engine)


def test_a_secret_is_not_shown(connect):
  assert "12345" not in str(refused("token", connect, "127.0.0.1:1", token=12345))


def test_a_number_is_not_accepted_as_path(connect, tmp_path):
  """open() would take a number as a file descriptor of this process, and close it.
  """
  opened = os.open(tmp_path / "token", os.O_CREAT | os.O_RDWR)
  os.write(opened, b"abc")
  refused("token_file", connect, "127.0.0.1:1", token_file=opened)
  os.fstat(opened)
  os.close(opened)
  connect("127.0.0.1:1", token_file=tmp_path / "token")


# --- calls -----------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [3600 * 24 * 365, 30, np.float32(30)])
def test_timeouts(q, timeout):
  assert q.info(timeout=timeout).version
  for wrong in (0, -1, float("inf"), [3], 1e10):
    refused("timeout", q.info, timeout=wrong)


def test_cancellations(q):
  for wrong in (threading.Event(), True, "stop"):
    error = refused("cancel", q.info, cancel=wrong)
    assert error.expected == "a quantd.Cancellation"
  stop = quantd.Cancellation()
  assert repr(stop) == "Cancellation(cancelled=False)"
  stop.cancel()
  assert repr(stop) == "Cancellation(cancelled=True)"


def test_arguments_of_quantize(q, x):
  refused("out", q.quantize, x, out=np.zeros(4096, "u1"))
  for wrong in (x, None, iter([x])):
    refused("fused", q.quantize, x, fused=wrong)
  cut = refused("fused[0]", q.quantize, x[:16], fused=[x[:1], x], usage="both")
  assert "multiples of 16" in cut.expected and "1 rows after 16" in cut.got
  assert not q.quantize(x, fused=[]).fused


def test_arguments_of_other_calls(q, x):
  t = q.quantize(x)
  for wrong in (x, None, "t"):
    refused("t", q.dequantize, wrong)
  refused("dtype", t.dequantize, "f8")
  refused("rotated", t.dequantize, rotated="no")
  refused("like", t.dequantize, out=np.empty(x.shape, "f4"), like="numpy")
  refused("inverse", q.apply_rht, x, inverse="no")
  refused("output", q.apply_rht, x, output="f8")
  refused("like", q.apply_rht, x, out=x.copy(), like="jax")
  refused("splits", q.amax, x, partial_splits=True)
  for shape in (64, None, 1.5):
    refused("tensor.shape", q.plan, shape)


# --- buffers -----------------------------------------------------------------------


def over_inputs(q):
  """Checks that outputs written over their inputs equal separate outputs."""
  x = np.random.default_rng(3).standard_normal((64, 128)).astype(np.float32)
  rotated, place = q.apply_rht(x), x.copy()
  assert q.apply_rht(place, out=place) is place and np.array_equal(place, rotated)
  plain, place = q.quantize(x), x.copy()
  flat = place.reshape(-1).view(np.uint8)
  size = plain.rowwise.codes.nbytes
  for at in (0, 2048, flat.size - size):
    place[:] = x
    t = q.quantize(place, out={"rowwise_data": flat[at:at + size]})
    assert np.array_equal(t.rowwise.codes, plain.rowwise.codes)
    assert np.array_equal(t.rowwise.scales, plain.rowwise.scales)


def test_an_output_may_lie_over_the_input(q):
  """The client must read an input before its output overwrites it."""
  over_inputs(q)


# --- many ------------------------------------------------------------------------------


def test_arguments_of_many(q, x):
  for wrong in ([x], None, 3, {3: x}):
    refused("tensors", q.quantize_all, wrong)
  for wrong in (0, -1, 1.5, "2", True):
    refused("at_once", q.quantize_all, {"a": x}, at_once=wrong)
  refused("progress", q.quantize_all, {"a": x}, progress="yes")
  refused("cancel", q.quantize_all, {"a": x}, cancel="stop")
  for name in ("out", "fused"):
    with pytest.raises(TypeError, match=name):
      q.quantize_all({"a": x}, **{name: ()})
  assert list(q.quantize_all([("a", x), ("b", x)])) == ["a", "b"]


def test_many_skips_all_but_float_matrices(q, x):
  state = {
      "up.weight": x,
      "up.bias": x[0],
      "scale": np.float32(3),
      "counter": np.array(7),
      "ids": np.arange(64).reshape(2, 32),
      "codes": np.zeros((32, 32), np.int8),
      "mask": np.ones((32, 32), bool),
  }
  told = []
  made = q.quantize_all(state, "nvfp4", progress=lambda *at: told.append(at))
  assert list(made) == ["up.weight"]
  assert told[-1] == (x.nbytes, x.nbytes)
  bits = (x.view(np.uint32) >> 16).astype(np.uint16)
  state["up.weight"] = bits
  assert list(q.quantize_all(state, dtype="bf16")) == ["up.weight"]
  # Without dtype, uint16 arrays may be bf16 weights, which must not be skipped
  # silently.
  with pytest.raises(quantd.Invalid, match='pass dtype="bf16"'):
    q.quantize_all(state)


def test_errors_of_many_name_the_tensor(q, x):
  for bad, field in ((x[:, :7], "tensor.shape"), ("text", "tensor"),
                     (x.astype("f8"), "tensor.dtype")):
    with pytest.raises(quantd.Invalid, match=r"^layer\.7: tensor") as caught:
      q.quantize_all({"layer.6": x, "layer.7": bad})
    assert caught.value.field == field
    assert caught.value.message.startswith("layer.7: ")


def test_many_of_bits_and_cancelled(q, x):
  bits = (x.view(np.uint32) >> 16).astype(np.uint16)
  assert q.quantize_all({"a": bits}, dtype="bf16")["a"].dtype == "bf16"
  stop = quantd.Cancellation()
  stop.cancel()
  with pytest.raises(quantd.Cancelled, match="^a: "):
    q.quantize_all({"a": x}, cancel=stop)


def test_progress_without_tqdm_warns(q, x, monkeypatch):
  monkeypatch.setitem(sys.modules, "tqdm.auto", None)
  with pytest.warns(UserWarning, match="tqdm is not installed") as told:
    q.quantize_all({"a": x, "b": x}, progress=True)
  assert len(told) == 1


# --- the package ---------------------------------------------------------------


def test_version():
  said = (TREE / "CMakeLists.txt").read_text()
  expected = re.search(r"^project\(quantd VERSION ([0-9.]+)", said, re.MULTILINE)[1]
  assert quantd.__version__.partition("+")[0] == expected
