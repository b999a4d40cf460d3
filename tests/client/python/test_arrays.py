"""Tests of input arrays: the same bytes from every library, and errors for bad arrays."""

import asyncio
import doctest
import gc
import importlib.util
import pkgutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import bf16, refused, same
from servers import info, scripted

import quantd
from quantd import aio
from quantd.tensors import arrays
from quantd import quantd_pb2 as pb

SKIP = {name: f"{name.upper()} IS NOT INSTALLED" for name in ("torch", "jax", "ml_dtypes")}


def test_layouts_of_memory(q, x):
  want = q.quantize(x, "nvfp4", usage="both")
  wide = np.repeat(x, 2, 1)
  frozen = x.copy()
  frozen.flags.writeable = False
  for other in (wide[:, ::2], np.asfortranarray(x), x.astype(">f4"), frozen,
                x[::-1][::-1]):
    same(q.quantize(other, "nvfp4", usage="both"), want)
  same(q.quantize(x.reshape(4, 24, 160), "nvfp4", usage="both"), want)


def test_types(q, x):
  bits, values = bf16(x)
  want = q.quantize(bits, "nvfp4", dtype="bf16")
  assert np.array_equal(want.dequantize("f32"), q.quantize(values, "nvfp4").dequantize())
  ml_dtypes = pytest.importorskip("ml_dtypes", reason=SKIP["ml_dtypes"])
  t = q.quantize(bits.view(ml_dtypes.bfloat16), "nvfp4")
  same(t, want)
  assert t.dequantize().dtype == ml_dtypes.bfloat16
  assert t.rowwise.scales.dtype == ml_dtypes.float8_e4m3fn


class Other:
  """An array that supports only DLPack."""

  def __init__(self, array):
    self.array = array

  def __dlpack__(self, *args, **keywords):
    return self.array.__dlpack__(*args, **keywords)

  def __dlpack_device__(self):
    return self.array.__dlpack_device__()


def test_dlpack(q, x):
  for other in (x, x.astype(np.float16), x[::2], x.T):
    plain = np.ascontiguousarray(other)
    same(q.quantize(Other(other), "fp8_e4m3"), q.quantize(plain, "fp8_e4m3"))
  kept = arrays.read(Other(x.copy()))
  gc.collect()
  assert kept.data.tobytes() == x.tobytes()
  with pytest.raises(quantd.Invalid, match="dtype"):
    q.quantize(Other(x.astype(np.int32)))

  class Device(Other):
    def __dlpack_device__(self):
      return (2, 0)

  with pytest.raises(quantd.Invalid, match="expected host memory"):
    q.quantize(Device(x))


def test_torch(q, x):
  torch = pytest.importorskip("torch", reason=SKIP["torch"])
  bits, values = bf16(x)
  tensor = torch.from_numpy(x)
  want = q.quantize(x, "nvfp4", usage="both")
  for other in (tensor, tensor.requires_grad_(), tensor.T.contiguous().T, Other(tensor.detach())):
    same(q.quantize(other, "nvfp4", usage="both"), want)
  half = torch.from_numpy(values).bfloat16()
  t = q.quantize(half, "nvfp4")
  same(t, q.quantize(bits, "nvfp4", dtype="bf16"))
  same(q.quantize(Other(half), "nvfp4"), t)
  back = t.dequantize(like="torch")
  assert back.dtype == torch.bfloat16 and back.shape == half.shape
  assert np.array_equal(back.view(torch.int16).numpy().view(np.uint16),
                        t.dequantize(like="numpy").view(np.uint16))
  out = torch.empty_like(half)
  assert t.dequantize(out=out) is out and torch.equal(out, back)
  for wrong in (tensor.double(), tensor.to_sparse(), torch.tensor(1.0)):
    with pytest.raises(quantd.Invalid):
      q.quantize(wrong)
  with pytest.raises(quantd.Invalid, match=r"\.cpu\(\)"):
    q.quantize(torch.empty(4, 16, device="meta"))


def test_jax(q, x):
  jax = pytest.importorskip("jax", reason=SKIP["jax"])
  want = q.quantize(x, "nvfp4")
  same(q.quantize(jax.numpy.asarray(x), "nvfp4"), want)
  half = jax.numpy.asarray(x).astype("bfloat16")
  t = q.quantize(half, "nvfp4")
  back = t.dequantize(like=half)
  assert isinstance(back, jax.Array) and back.dtype == half.dtype


@pytest.mark.parametrize("wrong, field", [
    (np.float64(1.0), "tensor.dtype"),
    (np.ones((), np.float32), "tensor.shape"),
    (np.ones((2, 16)), "tensor.dtype"),
    (np.ones((2, 16), np.int8), "tensor.dtype"),
    (np.ones((2, 16), np.uint16), "tensor.dtype"),
    (np.ones((2, 16), np.complex64), "tensor.dtype"),
    (np.array([[None]]), "tensor.dtype"),
    (np.array([["a"]]), "tensor.dtype"),
    ([[1.0, 2.0]], "tensor"),
    (None, "tensor"),
    ("words", "tensor"),
    (np.ones((1,) * 9 + (16,), np.float32), "tensor.shape"),
    (np.ones((2, 17), np.float32), "tensor.shape"),
])
def test_bad_arrays(q, wrong, field):
  refused(field, q.quantize, wrong)


def test_empty_tensors(q):
  for shape in ((0, 32), (4, 0), (0, 0), (2, 0, 32)):
    for name in ("nvfp4", "fp8_e4m3", "mxfp8_e4m3"):
      x = np.ones(shape, np.float32)
      assert q.quantize(x, name, usage="both").dequantize().shape == shape
  assert q.amax(np.ones((0, 32), np.float32)).rowwise[0] == 0


@pytest.mark.parametrize("keywords, field", [
    ({"rht": "rowwise", "sign_mask": 1 << 16}, "rht.sign_mask"),
    ({"sign_mask": 1}, "rht"),
    ({"shard": (1, 2)}, "shard"),
    ({"given_amax": {"diagonal": 1}}, "given_amax"),
    ({"splits": [95]}, "splits"),
    ({"history_margin": 1}, "history"),
    ({"flatten_axis": 5}, "tensor.flatten_axis"),
    ({"flatten_axis": 0.5}, "tensor.flatten_axis"),
    ({"out": {"dbias": np.zeros(4)}}, "out"),
    ({"out": {"rowwise_data": np.zeros(4, np.uint8)}}, "out['rowwise_data']"),
    ({"fused": [np.ones((2, 3), np.float32)]}, "fused[0]"),
])
def test_bad_options(q, x, keywords, field):
  refused(field, q.quantize, x, "nvfp4", **keywords)


def test_a_server_of_another_version(connect, x, engine):
  """An option that an older server ignores is an error."""
  def older(request, context):
    asked = pb.QuantizeRequest.FromString(request)
    asked.options.ClearField("statistics")
    return pb.QuantizeReply(
        tensor=asked.tensor, options=asked.options).SerializeToString()

  def garbage(request, context):
    return b"\xff" * 40

  with scripted(older) as server:
    with pytest.raises(quantd.Unimplemented, match="statistics"):
      connect(server.address).quantize(x, "nvfp4", statistics=True)
  def nothing(request, context):
    return b""

  for reply in (garbage, nothing):
    with scripted(reply) as server:
      with pytest.raises(quantd.Error):
        connect(server.address).quantize(x, "nvfp4")


# --- coroutines ---------------------------------------------------------------


def test_coroutines(server, engine, x):
  async def run():
    async with aio.connect(server, engine=engine) as q:
      assert (q.engine, q.target) == (engine, server)
      tensors = await asyncio.gather(*(q.quantize(x, "nvfp4") for _ in range(16)))
      assert len({t.rowwise.codes.tobytes() for t in tensors}) == 1
      assert (await q.dequantize(tensors[0])).shape == x.shape
      assert (await q.amax(x)).rowwise[0] == np.abs(x).max()
      turned = await q.apply_rht(await q.apply_rht(x), inverse=True)
      assert np.allclose(turned, x, atol=1e-4)
      assert (await q.plan((4, 16))).parts and (await q.info()).version
      assert list(await q.quantize_all({"a": x, "b": x})) == ["a", "b"]
      with pytest.raises(quantd.Invalid, match="Cancellation"):
        await q.info(cancel=threading.Event())
      names = {n for n in dir(quantd.Connection) if not n.startswith("_")}
      assert names <= set(dir(q))

  asyncio.run(run())


def test_a_cancelled_task_cancels_its_call(engine):
  def slow(request, context):
    time.sleep(1)
    return info(request, context)

  async def run(address):
    async with aio.connect(address, engine=engine) as q:
      with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(q.info(), 0.2)
      begin = time.monotonic()
    return time.monotonic() - begin

  with scripted(slow) as server:
    assert asyncio.run(run(server.address)) < 0.7


# --- the package --------------------------------------------------------------


def test_doctests(q):
  failed = tried = 0
  for found in pkgutil.walk_packages(quantd.__path__, "quantd."):
    if found.name.endswith(("_pb2", "_native", "native_engine")):
      continue
    module = importlib.import_module(found.name)
    result = doctest.testmod(module, extraglobs={"q": q, "np": np, "quantd": quantd})
    failed, tried = failed + result.failed, tried + result.attempted
  assert failed == 0 and tried > 30


def test_importing_is_quick_and_does_nothing():
  """Takes less time than numpy and grpc take, starts no thread, and loads no torch."""
  code = ("import sys, time, threading\n"
          "begin = time.process_time()\n"
          "import grpc, numpy\n"
          "import google.protobuf.message, google.protobuf.descriptor_pool\n"
          "loaded = time.process_time()\n"
          "import quantd\n"
          "print((time.process_time() - loaded) / (loaded - begin))\n"
          "assert threading.active_count() == 1\n"
          "assert not {'torch', 'jax', 'matplotlib'} & set(sys.modules)\n")
  ratios = []
  for _ in range(3):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ratios.append(float(done.stdout))
  assert min(ratios) < 1, ratios


def test_the_engine_has_a_name():
  assert quantd.engine in ("grpc", "native")
  with pytest.raises(ValueError, match="grpc, native"):
    quantd.connect("127.0.0.1:1", engine="steam")
  assert threading.current_thread() is threading.main_thread()
