"""Tests of the Hadamard transform, locally and on a server, and in the Quantizer.
"""

import json
import pathlib

import numpy as np
import pytest
from conftest import bf16

import quantd
from quantd import hadamard

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden"
MASKS = {16: [None, 0, 0x1234], 32: [None, 0xDEADBEEF], 64: [None], 128: [None, 1 << 127]}


def hard(dtype):
  """Returns values for which the order of additions matters, and special values."""
  rng = np.random.default_rng(11)
  x = rng.standard_normal((64, 256)) * np.exp2(rng.integers(-30, 30, (64, 256)))
  x = x.astype(np.float32)
  x[0, :16] = [0.0, -0.0] * 8
  x[1, 3], x[2, 5], x[3, 7], x[3, 8] = np.nan, np.inf, -np.inf, np.inf
  x[4, :16] = -1e-45
  x[5, :16] = 3e38
  if dtype == "f16":
    with np.errstate(over="ignore"):
      return x.astype(np.float16)
  return bf16(x)[0] if dtype == "bf16" else x


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_bits_equal_the_servers(q, dtype, inverse):
  x = hard(dtype)
  for n, masks in MASKS.items():
    for mask in masks:
      for output in ("f32", "f16", "bf16"):
        there = q.apply_rht(x, inverse=inverse, output=output, rht_dimension=n,
                            sign_mask=mask, dtype=dtype)
        here = hadamard.apply_rht(x, inverse, dimension=n, mask=mask,
                                  output=output, dtype=dtype)
        assert here.tobytes() == there.tobytes(), (n, mask, output)


def test_torch_and_jax_give_the_same_bits(x):
  seen = []
  for inverse in (False, True):
    for n in (16, 32, 128):
      values = np.tile(x, (1, 4))
      want = hadamard.apply_rht(values, inverse, dimension=n, output="bf16")
      try:
        import torch
        found = hadamard.apply_rht(torch.from_numpy(values), inverse, dimension=n,
                                   output="bf16")
        assert found.view(torch.int16).numpy().tobytes() == want.tobytes()
        seen.append("torch")
      except ImportError:
        pass
      try:
        import jax
        for run in (lambda f: f, jax.jit):
          found = run(lambda v: hadamard.apply_rht(
              v, inverse, dimension=n, output="bf16"))(jax.numpy.asarray(values))
          assert np.asarray(found).tobytes() == want.tobytes(), (n, inverse)
        seen.append("jax")
      except ImportError:
        pass
  if not seen:
    pytest.skip("NEITHER TORCH NOR JAX IS INSTALLED")


def test_golden_vector():
  golden = json.loads((GOLDEN / "golden.json").read_text())
  vector = golden["GV1"]
  x = np.array(vector["x"], np.uint16)
  y = hadamard.apply_rht(x, dtype="bf16")
  assert y.view(np.uint16).tolist() == vector["y"]
  plain = hadamard.apply_rht(x, dtype="bf16", mask=0)
  assert plain.view(np.uint16).tolist() == vector["y_mask0"]
  single = hadamard.apply_rht(x, dtype="bf16", output="f32")
  assert single.view(np.uint32).tolist() == vector["y_f32"]
  back = hadamard.apply_rht(np.array(vector["y"], np.uint16), True, dtype="bf16")
  assert back.view(np.uint16).tolist() == vector["inv"]
  # Row masks of R; a bit is set for each negative element.
  r = hadamard.rht_matrix(dtype="f32")
  ours = [sum(int(v < 0) << j for j, v in enumerate(row)) for row in r]
  assert ours == golden["R_row_neg_masks"]


def test_matrices(x):
  for n in (16, 32, 64, 128):
    r = hadamard.rht_matrix(n, dtype="f32")
    assert np.allclose(r @ r.T, np.eye(n), atol=1e-5)
    block = x[:4, :16] if n == 16 else np.tile(x[:4], 2)[:, :n]
    assert np.allclose(block @ r, hadamard.apply_rht(block, dimension=n), atol=1e-3)
    assert hadamard.sign_mask(hadamard.sign_vector(n)) == int("D7E8" * (n // 16), 16)
  # TransformerEngine and torchao return these signs from get_wgrad_sign_vector.
  assert hadamard.sign_vector().tolist() == [
      1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1]


def test_amax(q, x):
  found = q.amax(x, rht=True)
  assert hadamard.rht_amax(x) == found.rowwise_rht[0]
  assert hadamard.rht_amax(np.ascontiguousarray(x.T)) == found.columnwise_rht[0]


# --- the Quantizer ------------------------------------------------------------


def test_usage_and_rotation(q, x):
  quantizer = quantd.Quantizer(q, with_rht=True)
  t = quantizer(x)
  assert t.usage == "both" and t.columnwise.rotated and not t.rowwise.rotated
  want = q.quantize(x, "nvfp4", usage="both", rht="columnwise")
  assert all(np.array_equal(t.parts[k].data, want.parts[k].data) for k in want.parts)
  quantizer.set_usage(columnwise=False)
  assert quantizer(x).usage == "rowwise"
  quantizer.set_usage(columnwise=True)
  assert quantizer.copy()(x).columnwise.rotated
  plain = quantd.Quantizer(q, with_rht=True, with_random_sign_mask=False)(x)
  want = q.quantize(x, "nvfp4", usage="both", rht="columnwise", sign_mask=0)
  assert np.array_equal(plain.columnwise.codes, want.columnwise.codes)
  quantizer.set_usage(rowwise=False, columnwise=False)
  with pytest.raises(quantd.Invalid, match="neither"):
    quantizer(x)


def test_blocks_and_types(q):
  def of(*args, **keywords):
    return quantd.Quantizer(q, *args, **keywords).format

  assert of(block_dims=(16, 16)) == "nvfp4_2d" == of(with_2d_quantization=True)
  assert of("nvfp4_2d", block_dims=(1, 16)) == "nvfp4"
  assert of("fp8_block_e4m3", block_dims=(128, 128)) == "fp8_block_2d_e4m3"
  assert of("fp8_e4m3", fp8_dtype="kFloat8E5M2") == "fp8_e5m2"
  assert of("mxfp8_e4m3", fp8_dtype="float8_e5m2") == "mxfp8_e5m2"
  assert of("nvfp4", fp8_dtype="float8_e4m3fn") == "nvfp4"
  for wrong in ({"block_dims": (4, 4)}, {"fp8_dtype": "e5m2"}, {"fp8_dtype": "int8"}):
    with pytest.raises(quantd.Invalid):
      of("nvfp4", **wrong)


def test_seeds(q, x):
  drawn = quantd.Quantizer(q, stochastic_rounding=True)
  first, second = drawn(x), drawn(x)
  assert first.seed != second.seed
  again = q.quantize(x, "nvfp4", usage="both", stochastic=first.seed)
  assert np.array_equal(again.rowwise.codes, first.rowwise.codes)
  fixed = quantd.Quantizer(q, stochastic_rounding=True, seed=5)
  assert np.array_equal(fixed(x).rowwise.codes, fixed(x).rowwise.codes)


@pytest.mark.parametrize("name, keywords", [
    ("nvfp4", {}), ("nvfp4", {"with_rht": "both"}), ("fp8_e4m3", {}), ("mxfp8_e4m3", {}),
    ("nvfp4", {"row_scaled": True, "columnwise": False})])
def test_amax_reduction(q, x, name, keywords):
  """Shards quantized with a reduced amax have the bytes of the whole tensor."""
  shards, found = [x[:32], x[32:] * 5], []

  def made(reduce):
    quantizer = quantd.Quantizer(q, name, amax_reduction=reduce, **keywords)
    return [quantizer(shard) for shard in shards]

  def seen(amaxes):
    found.append(amaxes)
    return amaxes

  tensors = made(seen)
  if "row_scaled" not in keywords:
    tensors = made(lambda amaxes: np.maximum(*found))
  whole = quantd.Quantizer(q, name, **keywords)(np.concatenate(shards))
  codes = np.concatenate([t.rowwise.codes.view(np.uint8) for t in tensors])
  assert np.array_equal(codes, whole.rowwise.codes.view(np.uint8))
