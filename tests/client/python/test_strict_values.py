"""Tests of wrong values other than options: tensors, files, rotations and arrays."""

import json
import pickle

import numpy as np
import pytest

import quantd
from conftest import refused
from quantd import hadamard
from test_arrays import Other

BEYOND = 10**5000  # a number that Python refuses to print


def test_groups(q, x):
  t = q.quantize(x, "nvfp4", splits=[32, 64])
  for i in ("0", 1.0, True, None, [0], BEYOND, np.ones(2)):
    refused("group", t.group, i)
  with pytest.raises(IndexError):
    t.group(2)
  assert t.group(np.int64(1)).shape == (64, 160)


def test_shapes_and_rows(q, x):
  t = q.quantize(x, "nvfp4")
  for shape in ((None,), ("ab",), (BEYOND, 160), (96.0, 160), (True, 160), (1.5,),
                ({4: 1},), (np.ones((2, 2)),), ()):
    refused("shape", t.reshape, *shape)
  assert t.reshape(np.array([4, 24, 160])).shape == (4, 24, 160)
  assert t.reshape([-1, 160]).shape == (96, 160)
  for start in (np.zeros(2), "0", 1.0, True, BEYOND):
    refused("rows", t.rows, start, 16)


PARTS = ("rowwise_data", "rowwise_scale", "rowwise_amax")


def test_invalid_parts(q, x):
  t = q.quantize(x, "nvfp4")
  parts = {kind: t.part(kind) for kind in PARTS}
  make = quantd.QuantizedTensor.from_parts
  for shape in (None, 64, "ab", [1.5, 2], (-4, 16), (True, 16), (), (1,) * 9,
                (BEYOND, 16), {96: 160}):
    refused("shape", make, shape, "nvfp4", parts)
  for axis in ("x", 7, 0, -2, True, None, BEYOND):
    refused("flatten_axis", make, (96, 160), "nvfp4", parts, flatten_axis=axis)
  for dtype in ("e4m3", "f8", None, 3.5, ["f32"]):
    refused("dtype", make, (96, 160), "nvfp4", parts, dtype=dtype)
  for splits in ([], [9], [96, 1], [-1, 97]):
    refused("splits", make, (96, 160), "nvfp4", parts, splits=splits)
  for bad in (memoryview(bytes(96 * 160))[::2], object(), 3,
              np.ma.masked_array(parts["rowwise_data"], True)):
    refused("parts['rowwise_data']", make, (96, 160), "nvfp4",
            {**parts, "rowwise_data": bad})
  made = make((96, 160), "nvfp4", parts, dtype="f32", connection=q)
  assert np.array_equal(made.dequantize(), t.dequantize())
  again = pickle.loads(pickle.dumps(made))
  assert np.array_equal(again.rowwise.codes, t.rowwise.codes)


def test_a_tensor_is_a_value(q, x, tmp_path):
  t = q.quantize(x, "nvfp4")
  for name in ("library", "request_id", "format", "matrix"):
    with pytest.raises(AttributeError):
      setattr(t, name, None)
  path = tmp_path / "t.safetensors"
  t.save(path)
  loaded = quantd.load(path)
  loaded.connection = q  # the attribute may be set, as documented
  assert np.array_equal(loaded.dequantize(), t.dequantize())
  for array in (loaded.rowwise.codes, loaded.rowwise.scales, loaded.amax):
    with pytest.raises(ValueError, match="read-only"):
      array[...] = 0


# --- arrays -------------------------------------------------------------------


@pytest.mark.parametrize("library", ["numpy", "torch", "dlpack"])
def test_dtype_must_not_contradict_the_array(q, x, library):
  """`dtype` is for arrays without a float type, and does not convert others."""
  half = x.astype(np.float16)
  if library != "numpy":
    torch = pytest.importorskip("torch", reason="PYTORCH IS NOT INSTALLED")
    x, half = torch.from_numpy(x), torch.from_numpy(half)
  if library == "dlpack":
    x, half = Other(x), Other(half)
  for array, said in ((half, "bf16"), (x, "f16"), (half, "f32")):
    refused("tensor.dtype", q.quantize, array, "nvfp4", dtype=said)
  for said in ("f8", ["f32"], b"f32"):
    error = refused("tensor.dtype", q.quantize, x, "nvfp4", dtype=said)
    assert error.expected == "f32 or f16 or bf16"
  assert q.quantize(half, "nvfp4", dtype="f16").dtype == "f16"


def test_buffers_of_another_type(q, x):
  t = q.quantize(x, "nvfp4")
  refused("out", t.dequantize, "bf16", out=np.zeros(x.shape, np.float16))
  refused("out", t.dequantize, "f32", out=np.ma.masked_array(np.zeros_like(x), True))
  bits = t.dequantize("bf16", out=np.zeros(x.shape, np.uint16))
  assert np.array_equal(bits, t.dequantize("bf16").view(np.uint16))


# --- rotations ----------------------------------------------------------------


@pytest.mark.parametrize("call", [hadamard.apply_rht, hadamard.rht_amax])
def test_rotations(x, call):
  for mask in (True, np.ones(3), "0x1", 1.0, -1, 1 << 16, BEYOND, b"\1\2"):
    refused("mask", call, x, mask=mask)
  for dimension in (16.0, "16", 8, True, None, np.array([16, 32]), BEYOND):
    refused("rht.dimension", call, x, dimension=dimension)
  for dtype in ("f8", "bf16", "f16", ["f32"]):
    refused("tensor.dtype", call, x, dtype=dtype)
  refused("tensor", call, np.ma.masked_array(x, x > 0))
  assert np.array_equal(call(x, dtype="f32", dimension=np.int64(16)), call(x))


def test_results_of_rotations(x):
  for output in ("f8", "e4m3", ["f32"], ""):
    refused("output", hadamard.apply_rht, x, output=output)
    refused("dtype", hadamard.rht_matrix, dtype=output)
  for inverse in ("no", 1, None):
    refused("inverse", hadamard.apply_rht, x, inverse)
  for dimension in (np.array([16]), 16.0, "16", True):
    refused("rht.dimension", hadamard.hadamard_matrix, dimension)
    refused("rht.dimension", hadamard.rht_matrix, dimension)
    refused("rht.dimension", hadamard.sign_vector, dimension)
  for vector in (None, 5, "x" * 16, np.ones((16, 2)), [0] * 16, [True] * 16,
                 {1: 1}, [[1]] * 16):
    refused("sign_vector", hadamard.sign_mask, vector)
  assert hadamard.sign_mask(hadamard.sign_vector().tolist()) == 0xD7E8


# --- files --------------------------------------------------------------------


@pytest.fixture
def rewrite(q, x, tmp_path):
  """Writes a file with a changed header, and returns its path."""
  path = tmp_path / "t.safetensors"
  q.quantize(x, "nvfp4").save(path)
  whole = path.read_bytes()
  length = int.from_bytes(whole[:8], "little")

  def function(change):
    header = json.loads(whole[8:8 + length])
    text = change(header)
    text = (text if isinstance(text, str) else json.dumps(header)).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + length:])
    return path

  return function


def test_files_of_another_version(rewrite):
  def version(header):
    header["__metadata__"]["quantd.version"] = "4"

  def numerics(header):
    header["__metadata__"]["quantd.numerics"] = "future@9"

  # The C++ library has the same message.
  message = 'layout version "4" is newer than this package, which reads up to version 3'
  assert message in str(refused("file", quantd.load, rewrite(version)))
  error = refused("file", quantd.load, rewrite(numerics))
  assert 'numerics "future@9" are unknown to this package, which knows te' in str(error)
  for said in ("te", "several"):
    path = rewrite(lambda h, said=said: h["__metadata__"].update(
        {"quantd.numerics": said}))
    assert quantd.load(path).profile == "te"


def test_headers_that_are_nearly_right(rewrite):
  def floats(header):
    header["tensor.rowwise_data"]["shape"] = [96.0, 80.0]

  def truth(header):
    header["tensor.rowwise_amax"]["shape"] = [True]

  def twice(header):
    text = json.dumps(header)
    return text[:-1] + ', "tensor.rowwise_amax": ' + json.dumps(
        header["tensor.rowwise_amax"]) + "}"

  def described(key, value):
    def change(header):
      found = json.loads(header["__metadata__"]["quantd.tensor.tensor"])
      found[key] = value
      header["__metadata__"]["quantd.tensor.tensor"] = json.dumps(found)
    return change

  rht = {"rowwise": True, "columnwise": False, "dimension": 16}
  for change in (floats, truth, twice, described("epsilon", float("nan")),
                 described("epsilon", 1e300), described("epsilon", 10**400),
                 described("rht", {**rht, "sign_mask": "0x_7E8"})):
    refused("file", quantd.load, rewrite(change))


# --- saving and loading --------------------------------------------------------


def test_tensors_that_cannot_be_saved(q, x, tmp_path):
  t = q.quantize(x, "nvfp4")
  for tensors in ({}, {3: t}, {"a": 3}, {"\ud800": t}, [t], None):
    refused("tensors", quantd.save, tensors, tmp_path / "t")
  assert not list(tmp_path.iterdir())


def test_a_descriptor_is_not_accepted_as_path():
  with pytest.raises(TypeError):
    quantd.load(3)


def test_headers_with_wrong_sizes(rewrite):
  refused("file", quantd.load, rewrite(lambda header: "[]"))
  refused("file", quantd.load, rewrite(lambda header: "[" * 50_000))
  for offsets in (lambda o: [float(v) for v in o], lambda o: o[:1],
                  lambda o: [v + 1 for v in o], lambda o: [o[1], o[0]],
                  lambda o: [0, o[1] - o[0]], lambda o: {"a": 1}):
    def change(header, offsets=offsets):
      entry = header["tensor.rowwise_amax"]
      entry["data_offsets"] = offsets(entry["data_offsets"])

    refused("file", quantd.load, rewrite(change))
  path = rewrite(lambda header: None)
  assert quantd.load(path).format == "nvfp4"
  whole = path.read_bytes()
  for body in (whole + b"\0", whole[:-1]):
    path.write_bytes(body)
    refused("file", quantd.load, path)
