"""Tests of arrays in memory shared with a server, which calls use in place."""

import os
import pickle
import tempfile

import numpy as np
import pytest

import quantd
from conftest import native_only, refused, same
from quantd.tensors import arrays
from servers import Process

OPTIONS = [
    ("nvfp4", dict(usage="both", rht="columnwise")),
    ("mxfp8_e4m3", dict(usage="both")),
    ("fp8_e4m3", dict(usage="both")),
    ("nvfp4", dict(profile="modelopt@0.47")),
    ("fp8_block_2d_e4m3", {}),
]


@pytest.fixture(scope="module")
def sharing():
  """A server that shares memory, and the path of its memory socket."""
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


@native_only
@pytest.mark.parametrize("format, options", OPTIONS)
def test_shared_memory_is_used_in_place(shared, format, options):
  values = np.random.default_rng(3).standard_normal((256, 512), np.float32)
  x = shared.empty(values.shape, "f32")
  x[:] = values
  plain = shared.quantize(values, format, **options)
  t = shared.quantize(x, format, **options)
  assert (plain.transport, t.transport) == ("unix", "shared")
  same(t, plain)
  # Dequantize reads the parts from shared memory and writes `out` there.
  out = shared.empty(values.shape, "f32")
  assert t.dequantize("f32", out=out) is out
  assert out.tobytes() == plain.dequantize("f32").tobytes()
  assert shared.amax(x).rowwise == shared.amax(values).rowwise
  room = shared.empty((t.parts["rowwise_data"].data.size // 4,), "f32")
  room = room.view(np.uint8)
  t = shared.quantize(x, format, out={"rowwise_data": room}, **options)
  assert t.transport == "shared"
  assert t.parts["rowwise_data"].data.ctypes.data == room.ctypes.data
  same(t, plain)


@native_only
def test_results_and_arrays_outlive_the_connection(sharing):
  process, memory = sharing
  q = quantd.connect(process.address, engine="native", memory_socket=memory)
  x = q.empty((512, 512), "f32")
  x[:] = 1.5
  t = q.quantize(x, "mxfp8_e4m3")
  want = t.rowwise.codes.tobytes()
  assert t.transport == "shared"
  again = pickle.loads(pickle.dumps(q))
  # Memory that another connection shares is sent in a message.
  assert again.quantize(x, "mxfp8_e4m3").transport == "unix"
  again.close()
  q.close()
  del q
  x[:] = 2.5
  assert t.rowwise.codes.tobytes() == want
  with pytest.raises(quantd.Cancelled):
    again.empty((4, 4))


@native_only
def test_servers_that_do_not_share_memory(server, sharing, engine):
  process, memory = sharing
  with quantd.connect(process.address, engine="native",
                      memory_socket=memory + ".none") as q:
    with pytest.raises(quantd.Unavailable):
      q.empty((4, 4))
    assert q.quantize(np.ones((4, 32), np.float32)).transport == "unix"
  refused("memory_socket", quantd.connect, f"{server},127.0.0.2:1",
          engine="native", memory_socket=memory)
  for bad in (3, b"x", "a\0b"):
    refused("memory_socket", quantd.connect, server, memory_socket=bad)
  with quantd.connect(server, engine=engine) as q:
    assert q.quantize(np.ones((4, 32), np.float32)).transport == "tcp"
  with quantd.connect("local:cpu", engine="native") as q:
    assert q.quantize(q.empty((4, 32), "f32")).transport == "local"
    assert not q.takes_device
