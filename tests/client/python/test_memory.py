"""Tests of arrays in memory shared with a server, which calls use in place."""

import importlib.util
import os
import pickle
import signal
import tempfile

import numpy as np
import pytest

import quantd
from quantd.tensors import arrays
from servers import Process

native = pytest.mark.skipif(
    importlib.util.find_spec("quantd._native") is None,
    reason="THE NATIVE ENGINE IS NOT BUILT HERE")

OPTIONS = [
    ("nvfp4", dict(usage="both", rht="columnwise")),
    ("mxfp8_e4m3", dict(usage="both")),
    ("fp8_e4m3", dict(usage="both")),
    ("nvfp4", dict(profile="modelopt@0.47")),
    ("fp8_block_2d_e4m3", {}),
]


@pytest.fixture(scope="module")
def sharing():
  """The address and the memory socket of a server that shares memory."""
  with tempfile.TemporaryDirectory() as folder:
    memory = os.path.join(folder, "memory")
    with Process("--memory-socket", memory, "--shared-memory-limit", "64MiB",
                 listen=f"unix:{folder}/calls") as process:
      yield process, memory


@pytest.fixture
def shared(sharing):
  process, memory = sharing
  with quantd.connect(process.address, engine="native",
                      memory_socket=memory) as connection:
    yield connection


def same(a, b):
  assert a.parts.keys() == b.parts.keys()
  for kind in a.parts:
    assert a.parts[kind].data.tobytes() == b.parts[kind].data.tobytes(), kind


def test_empty_of_any_connection(q, x):
  made = q.empty(x.shape, "f32")
  made[:] = x
  same(q.quantize(made, "nvfp4"), q.quantize(x, "nvfp4"))
  assert q.empty((3, 5)).dtype == arrays.numpy_dtype("bf16")
  assert q.empty((0, 5), "f16").shape == (0, 5)
  q.dequantize(q.quantize(x, "nvfp4"), "f32", out=made)
  for bad in (dict(shape=(2, -1)), dict(shape="ab"), dict(shape=(2**49, 2)),
              dict(shape=(4, 4), dtype="e4m3"), dict(shape=(4, 4), like="jax")):
    with pytest.raises(quantd.Invalid):
      q.empty(**bad)


@native
@pytest.mark.parametrize("format, options", OPTIONS)
def test_shared_memory_is_used_in_place(shared, format, options):
  values = np.random.default_rng(3).standard_normal((256, 512), np.float32)
  x = shared.empty(values.shape, "f32")
  x[:] = values
  plain = shared.quantize(values, format, **options)
  t = shared.quantize(x, format, **options)
  assert (plain.transport, t.transport) == ("unix", "shared")
  same(t, plain)
  # The parts are in shared memory, from which Dequantize decodes them into
  # `out`.
  out = shared.empty(values.shape, "f32")
  assert t.dequantize("f32", out=out) is out
  assert out.tobytes() == plain.dequantize("f32").tobytes()
  assert shared.amax(x).rowwise == shared.amax(values).rowwise


@native
def test_parts_into_shared_memory(shared):
  values = np.random.default_rng(4).standard_normal((128, 256), np.float32)
  room = shared.empty((1 << 16,), "f32").view(np.uint8)
  x = room[:values.nbytes].view(np.float32).reshape(values.shape)
  x[:] = values
  codes = room[values.nbytes:][:128 * 128]
  t = shared.quantize(x, "nvfp4", out={"rowwise_data": codes})
  assert t.transport == "shared"
  assert t.parts["rowwise_data"].data.ctypes.data == codes.ctypes.data
  same(t, shared.quantize(values, "nvfp4"))


@native
def test_results_and_arrays_outlive_the_connection(sharing):
  process, memory = sharing
  q = quantd.connect(process.address, engine="native", memory_socket=memory)
  x = q.empty((512, 512), "f32")
  x[:] = 1.5
  t = q.quantize(x, "mxfp8_e4m3")
  want = t.rowwise.codes.tobytes()
  assert t.transport == "shared"
  again = pickle.loads(pickle.dumps(q))
  # Memory shared with another server is sent by message.
  assert again.quantize(x, "mxfp8_e4m3").transport == "unix"
  again.close()
  q.close()
  del q
  x[:] = 2.5
  assert t.rowwise.codes.tobytes() == want
  with pytest.raises(quantd.Cancelled):
    again.empty((4, 4))


@native
def test_servers_that_do_not_share_memory(server, sharing, engine):
  process, memory = sharing
  with pytest.raises(quantd.Invalid) as wrong:
    quantd.connect(process.address, engine="grpc", memory_socket=memory)
  assert wrong.value.field == "memory_socket"
  with quantd.connect(process.address, engine="native",
                      memory_socket=memory + ".none") as q:
    with pytest.raises(quantd.Unavailable):
      q.empty((4, 4))
    assert q.quantize(np.ones((4, 32), np.float32)).transport == "unix"
  with pytest.raises(quantd.Invalid) as wrong:
    quantd.connect(f"{server},127.0.0.2:1", engine="native",
                   memory_socket=memory)
  assert wrong.value.field == "memory_socket"
  for bad in (3, b"x", "a\0b"):
    with pytest.raises(quantd.Invalid):
      quantd.connect(server, memory_socket=bad)
  with quantd.connect(server, engine=engine) as q:
    assert q.quantize(np.ones((4, 32), np.float32)).transport == "tcp"
  with quantd.connect("local:cpu", engine="native") as q:
    assert q.quantize(q.empty((4, 32), "f32")).transport == "local"
    assert not q.takes_device


@native
def test_a_stopped_server_causes_an_error(sharing):
  _, memory = sharing
  with tempfile.TemporaryDirectory() as folder:
    own = os.path.join(folder, "memory")
    process = Process("--memory-socket", own, listen=f"unix:{folder}/calls")
    with quantd.connect(process.address, engine="native", memory_socket=own,
                        retry=quantd.Retry(max_attempts=1)) as q:
      x = q.empty((256, 256), "f32")
      x[:] = 1
      assert q.quantize(x).transport == "shared"
      process.stop(signal.SIGKILL)
      with pytest.raises(quantd.Unavailable):
        q.quantize(x, timeout=5)
      assert (x == 1).all()
  del memory
