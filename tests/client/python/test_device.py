"""Tests of arrays in GPU memory. With a GPU they use real PyTorch, CuPy and
JAX, a local device and a server. Without one they use a stand-in for CuPy in host
memory, which the local CPU device accepts.
"""

import importlib.util
import os
import sys
import tempfile
import types

import numpy as np
import pytest

import quantd
from conftest import native_only, refused
from quantd.tensors import device
from servers import Process

pytestmark = native_only

ROWS, COLS = 384, 512
OPTIONS = [
    ("nvfp4", dict(usage="both", rht="both")),
    ("nvfp4", dict(profile="modelopt@0.47")),
    ("nvfp4_2d", dict(usage="both", four_over_six="mse")),
    ("mxfp8_e4m3", dict(usage="both")),
    ("mxfp4", dict(stochastic=7)),
    ("fp8_e4m3", dict(usage="both", dbias=True)),
    ("fp8_channel_e4m3", {}),
    ("fp8_block_2d_e4m3", {}),
]


def stand_in():
  """Returns a module with the parts of CuPy that the package uses, made from numpy."""
  cupy = types.ModuleType("cupy")

  class Device:
    id = 0

    def __init__(self, ordinal=0):
      self.id = ordinal

    def __enter__(self):
      return self

    def __exit__(self, *_):
      pass

  class ndarray:  # noqa: N801: the name in CuPy
    def __init__(self, values):
      self.values = np.asarray(values)
      self.data = types.SimpleNamespace(ptr=self.values.ctypes.data)
      self.device = Device()

    dtype = property(lambda self: self.values.dtype)
    shape = property(lambda self: self.values.shape)
    ndim = property(lambda self: self.values.ndim)
    nbytes = property(lambda self: self.values.nbytes)
    flags = property(lambda self: self.values.flags)

    def reshape(self, *shape):
      return ndarray(self.values.reshape(*shape))

    def view(self, dtype):
      return ndarray(self.values.view(dtype))

    def copy(self):
      return ndarray(self.values.copy())

    def get(self):
      return self.values.copy()

    def __getitem__(self, key):
      return ndarray(self.values[key])

    def __dlpack__(self):
      raise AssertionError("the host must not read GPU memory")

    def __dlpack_device__(self):
      return (2, 0)

  ndarray.__module__ = "cupy"
  synchronized = []
  cupy.ndarray = ndarray
  cupy.empty = lambda n, dtype: ndarray(np.full(n, 0xA5, np.uint8).view(dtype))
  cupy.asarray = lambda x: ndarray(x.copy())
  cupy.ascontiguousarray = lambda x: ndarray(np.ascontiguousarray(x.values))
  cupy.cuda = types.SimpleNamespace(
      Device=Device,
      get_current_stream=lambda: types.SimpleNamespace(
          synchronize=lambda: synchronized.append(1)))
  cupy.synchronized = synchronized
  return cupy


def has_gpu():
  """Returns whether the package was built with CUDA, and there is a GPU."""
  if importlib.util.find_spec("quantd._native") is None:
    return False
  try:
    with quantd.connect("local:cuda:0", engine="native") as q:
      return bool(q.takes_device)
  except quantd.Error:
    return False


GPU = has_gpu()
LIBRARIES = ["torch", "cupy", "jax"] if GPU else ["stand-in"]
if not GPU:
  print("NO GPU: arrays in its memory are tested with a stand-in")


@pytest.fixture(params=LIBRARIES)
def library(request, monkeypatch):
  """The name of a library, and functions that convert numpy arrays to and from it."""
  name = request.param
  if name == "stand-in":
    cupy = stand_in()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return "cupy", cupy.asarray, lambda x: x.get()
  module = pytest.importorskip(name)
  if name == "torch":
    return name, lambda x: module.from_numpy(x).cuda(), lambda x: x.cpu().numpy()
  if name == "cupy":
    return name, module.asarray, lambda x: x.get()
  gpu = module.devices("gpu")[0]
  return name, lambda x: module.device_put(x, gpu), np.asarray


@pytest.fixture(scope="module")
def sharing():
  """A server that shares a GPU's memory with this process."""
  with tempfile.TemporaryDirectory() as folder:
    memory = os.path.join(folder, "memory")
    with Process("--memory-socket", memory, "--device", "cuda:0",
                 listen=f"unix:{folder}/calls") as process:
      yield process.address, memory


@pytest.fixture(params=["here", "served"] if GPU else ["here"])
def there(request, library):
  """A connection that accepts device memory."""
  del library
  if request.param == "served":
    address, memory = request.getfixturevalue("sharing")
    with quantd.connect(address, engine="native", memory_socket=memory) as q:
      assert q.takes_device
      yield q
    return
  target = "local:cuda:0" if GPU else "local:cpu"
  with quantd.connect(target, engine="native") as q:
    # The stand-in's memory is ordinary host memory.
    q._engine.takes_device = True
    yield q


@pytest.fixture(scope="module")
def here():
  with quantd.connect("local:cpu", engine="native") as q:
    yield q


def values(seed=1):
  return np.random.default_rng(seed).standard_normal((ROWS, COLS), np.float32)


@pytest.mark.parametrize("format, options", OPTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_results_are_in_device_memory(library, there, here, format, options, dtype):
  name, put, get = library
  x = values().astype(dtype)
  t = there.quantize(put(x), format, **options)
  want = here.quantize(x, format, **options)
  way = "local" if there.target.startswith("local") else "cuda"
  assert (t.library, t.device, t.transport) == (name, "cuda:0", way)
  for kind, part in want.parts.items():
    assert t.parts[kind].host().data.tobytes() == part.data.tobytes(), kind
  assert "QuantizedTensor" in repr(t)
  codes = t.part("rowwise_data")
  assert device.is_on_device(codes) and tuple(codes.shape) == t.cpu().part(
      "rowwise_data").shape
  # Dequantize also reads and writes device memory.
  y = t.dequantize("f32")
  assert device.is_on_device(y)
  assert get(y).tobytes() == want.dequantize("f32").tobytes()
  home = t.cpu()
  assert home.device == "cpu"
  assert home.dequantize("f32", connection=here).tobytes() == get(y).tobytes()


def test_other_calls(library, there, here):
  name, put, get = library
  x = values(2)
  a, b = there.amax(put(x), rht=True), here.amax(x, rht=True)
  assert a.rowwise_rht == b.rowwise_rht and a.columnwise == b.columnwise
  y = there.apply_rht(put(x))
  assert device.is_on_device(y)
  assert get(y).tobytes() == here.apply_rht(x).tobytes()
  home = there.apply_rht(put(x), like="numpy")
  assert home.tobytes() == get(y).tobytes()
  if name != "jax":
    out = put(np.zeros_like(x))
    assert there.apply_rht(put(x), out=out) is out
    assert get(out).tobytes() == get(y).tobytes()


def test_buffers_of_the_caller(library, there, here):
  name, put, get = library
  x = values(3)
  if name == "jax":
    with pytest.raises(quantd.Invalid, match="writable"):
      there.quantize(put(x), out={"rowwise_data": put(x)})
    return
  want = here.quantize(x, "nvfp4")
  codes = put(np.zeros((ROWS, COLS // 2), np.uint8))
  t = there.quantize(put(x), "nvfp4", out={"rowwise_data": codes})
  assert get(codes).tobytes() == want.parts["rowwise_data"].data.tobytes()
  assert t.parts["rowwise_data"].device.array is codes
  # One output is over the input, which the engine copies first, and another in
  # host memory.
  over = put(x)
  byte = sys.modules["torch"].uint8 if name == "torch" else np.uint8
  flat = over.reshape(-1).view(byte)[:ROWS * COLS // 2]
  there.quantize(over, "nvfp4", out={"rowwise_data": flat})
  assert get(flat).tobytes() == get(codes).tobytes()
  home = np.zeros((ROWS, COLS // 2), np.uint8)
  there.quantize(put(x), "nvfp4", out={"rowwise_data": home})
  assert home.tobytes() == get(codes).tobytes()
  with pytest.raises(quantd.Invalid, match="bytes"):
    there.quantize(put(x), "nvfp4", out={"rowwise_data": put(x)})
  with pytest.raises(quantd.Invalid, match="overlap"):
    there.quantize(put(x), "nvfp4", out={
        "rowwise_data": codes,
        "rowwise_scale": codes.reshape(-1)[:ROWS * COLS // 16]})


def test_host_only_operations_raise_errors(library, there, tmp_path):
  _, put, _ = library
  t = there.quantize(put(values()), "nvfp4")
  for use in (lambda: t.rows(0, 128), lambda: t.to_modelopt("w"),
              lambda: t.save(tmp_path / "t.safetensors")):
    with pytest.raises(quantd.Invalid, match=r"t\.cpu\(\)"):
      use()
  t.cpu().save(tmp_path / "t.safetensors")
  import pickle
  again = pickle.loads(pickle.dumps(t))
  assert again.device == "cpu" and again.amax == t.cpu().amax


def test_bad_arrays(library, there):
  _, put, _ = library
  refused("tensor.dtype", there.quantize, put(np.ones((4, 32), np.int32)))
  refused("tensor.shape", there.quantize, put(np.ones((), np.float32)))
  refused("tensor.shape", there.quantize, put(np.ones((4, 33), np.float32)))
  refused("tensor.dtype", there.quantize, put(np.ones((4, 32), np.float32)),
          dtype="bf16")
  error = refused("fused", there.quantize, put(values()), fused=[values()])
  assert "given_amax" in str(error)


def test_a_remote_server_refuses_device_memory(library, server):
  name, put, _ = library
  with quantd.connect(server, engine="native") as q:
    assert not q.takes_device
    if name == "jax":  # JAX copies its arrays to the host automatically
      assert q.quantize(put(values())).device == "cpu"
      return
    with pytest.raises(quantd.Error):
      q.quantize(put(values()))


def test_work_of_the_library_is_waited_for(library, there, here):
  name, put, _ = library
  if not GPU:
    sys.modules["cupy"].synchronized.clear()
    there.quantize(put(values()))
    assert sys.modules["cupy"].synchronized == [1]
    return
  if name != "torch":
    return
  import torch
  x = torch.zeros(8192, 8192, device="cuda")
  y = torch.ones(8192, 8192, device="cuda")
  for _ in range(20):
    torch.matmul(y, y, out=x)  # queues some milliseconds of work
    x.fill_(1.5)
    t = there.quantize(x, "mxfp8_e4m3")
    assert bool((t.rowwise.codes.view(torch.uint8) == t.rowwise.codes.view(
        torch.uint8)[0, 0]).all())
  del here
