"""Tests of tensors as values: files, views, parts, dialects and repr."""

import contextlib
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

import quantd
from conftest import same

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden"

FORMS = [
    ("nvfp4", {"usage": "both", "rht": "columnwise"}),
    ("nvfp4", {"usage": "both", "scale_layout": "swizzled"}),
    ("nvfp4", {"usage": "both", "row_scaled": True}),
    ("nvfp4_2d", {"usage": "both"}),
    ("nvfp4_2d", {"usage": "both", "compact_scales": True}),
    ("mxfp4", {"usage": "both"}),
    ("mxfp8_e4m3", {"usage": "both"}),
    ("mxfp8_e5m2", {"usage": "both", "scale_layout": "swizzled"}),
    ("fp8_e4m3", {"usage": "both"}),
    ("fp8_channel_e4m3", {"usage": "both"}),
    ("fp8_block_e4m3", {"usage": "both"}),
    ("fp8_block_2d_e5m2", {"usage": "both"}),
    ("nvfp4", {"profile": "compressed-tensors@0.20"}),
]


@pytest.mark.parametrize("name, keywords", FORMS)
def test_rows(q, name, keywords):
  """A slice of rows decodes like the rows of the whole tensor, in every copy."""
  w = np.random.default_rng(5).standard_normal((384, 96)).astype(np.float32)
  t = q.quantize(w, name, **keywords)
  for start, stop in ((0, 128), (128, 384), (384, 384), (256, 384), (0, 384)):
    part = t.rows(start, stop)
    assert part.shape == (stop - start, 96)
    for usage in ("rowwise", "columnwise"):
      if f"{usage}_data" in t.parts and stop > start:
        whole = t.dequantize(usage=usage)[start:stop]
        assert np.array_equal(part.dequantize(usage=usage), whole), (start, usage)
        assert np.abs(whole - w[start:stop]).max() < 1
  for usage in keywords:
    if usage == "usage" and name != "fp8_channel_e4m3" and name != "fp8_e4m3":
      with pytest.raises(quantd.Invalid, match="multiples of"):
        t.rows(8, 384)
  with pytest.raises(quantd.Invalid, match="inside 0 to 384"):
    t.rows(0, 385)


@pytest.mark.parametrize("name, keywords", FORMS)
def test_groups_equal_separate_tensors(q, name, keywords):
  w = np.random.default_rng(5).standard_normal((160, 96)).astype(np.float32)
  splits = [48, 0, 112]
  t = q.quantize(w, name, splits=splits, **keywords)
  at = 0
  for i, rows in enumerate(splits):
    alone = q.quantize(w[at:at + rows], name, **keywords)
    for kind, part in t.group(i).parts.items():
      assert part.spec.shape == alone.parts[kind].spec.shape
      assert np.array_equal(part.data, alone.parts[kind].data), (i, kind)
    at += rows
  assert np.array_equal(t.group(2).dequantize(), t.dequantize()[48:])
  with pytest.raises(IndexError):
    t.group(3)


def test_reshape(q, x):
  t = q.quantize(x, "nvfp4")
  back = t.reshape(4, -1, 160)
  assert back.shape == (4, 24, 160) and back.dequantize().shape == (4, 24, 160)
  assert t.view(2, 48, 160).rowwise.codes is not None
  for wrong in ((96, 80, 2), (95, 160), (-1, -1, 160), (160, 96)):
    with pytest.raises(quantd.Invalid):
      t.reshape(*wrong)


def test_from_parts(q, x):
  t = q.quantize(x, "nvfp4", usage="both", rht="columnwise")
  parts = {kind: t.part(kind) for kind in t.parts}
  keywords = {"usage": "both", "rht": "columnwise", "dtype": "f32"}
  made = quantd.QuantizedTensor.from_parts(
      x.shape, "nvfp4", parts, connection=q, **keywords)
  for usage in ("rowwise", "columnwise"):
    assert np.array_equal(made.dequantize(usage=usage), t.dequantize(usage=usage))
  short = dict(parts, rowwise_data=t.parts["rowwise_data"].data[1:])
  negative = dict(parts, rowwise_amax=np.array([-1], np.float32))
  extra = dict(parts, dbias=parts["rowwise_amax"])
  missing = {k: v for k, v in parts.items() if k != "columnwise_scale"}
  for wrong, words in ((short, "7680 bytes"), (negative, "amaxes >= 0"),
                       (extra, "dbias"), (missing, "columnwise_scale")):
    with pytest.raises(quantd.Invalid, match=words):
      quantd.QuantizedTensor.from_parts(x.shape, "nvfp4", wrong, **keywords)


# --- files --------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("files_*/*")),
                         ids=lambda p: p.stem)
def test_files_of_older_versions(q, path, tmp_path):
  """Old files load, decode as in quantctl, and keep their options when saved."""
  t = quantd.load(path, connection=q)
  out, raw = tmp_path / "again.safetensors", tmp_path / "x.safetensors"
  t.save(out)
  assert quantd.load(out).options == t.options
  subprocess.run([os.environ["QUANTCTL"], "dequantize", path, "--server", q.target,
                  "--dtype", "f32", "-o", raw], check=True, capture_output=True)
  body = raw.read_bytes()
  size = int.from_bytes(body[:8], "little")
  entry = [v for k, v in json.loads(body[8:8 + size]).items() if k != "__metadata__"]
  begin, end = entry[0]["data_offsets"]
  assert t.dequantize("f32").tobytes() == body[8 + size + begin:8 + size + end]


def test_several_tensors_in_a_file(q, x, tmp_path):
  path = tmp_path / "two.safetensors"
  tensors = {"a": q.quantize(x, "nvfp4"), "b": q.quantize(x, "mxfp4")}
  quantd.save(tensors, path)
  with pytest.raises(quantd.Invalid, match=r"save\(tensors, path\)"):
    quantd.save(path, tensors)
  for name, t in tensors.items():
    again = quantd.load(path, name, connection=q)
    assert np.array_equal(again.dequantize(), t.dequantize())
  with pytest.raises(quantd.Invalid, match="has 2: a, b$"):
    quantd.load(path)
  with pytest.raises(KeyError):
    quantd.load(path, "c")


def test_a_file_appears_whole_or_not_at_all(q, x, tmp_path):
  path = tmp_path / "t.safetensors"
  q.quantize(x, "nvfp4").save(path)
  before = path.read_bytes()
  broken = q.quantize(x, "mxfp4").replaced(parts={})
  with pytest.raises(KeyError):
    broken.save(path)
  assert path.read_bytes() == before
  assert os.listdir(tmp_path) == ["t.safetensors"]


def test_malformed_files_are_refused(q, x, tmp_path):
  """A truncated file is refused. One with a changed header is refused or loads."""
  path = tmp_path / "t.safetensors"
  q.quantize(x[:16, :32], "nvfp4").save(path)
  whole = path.read_bytes()
  bad = tmp_path / "bad.safetensors"
  for size in (0, 7, 8, 100, len(whole) - 1):
    bad.write_bytes(whole[:size])
    with pytest.raises(quantd.Invalid):
      quantd.load(bad)
  refused = 0
  for at in range(0, int.from_bytes(whole[:8], "little") + 8):
    changed = bytearray(whole)
    changed[at] ^= 0x15
    bad.write_bytes(changed)
    try:
      quantd.load(bad)
    except (quantd.Invalid, KeyError):
      refused += 1
  assert refused > 300


# --- dialects -----------------------------------------------------------------


WRITERS = {"modelopt": quantd.QuantizedTensor.to_modelopt,
           "compressed-tensors": quantd.QuantizedTensor.to_compressed_tensors}


@pytest.mark.parametrize("case", range(3))
def test_bytes_of_libraries(q, case):
  """Bytes, names and shapes equal those that the libraries write."""
  golden = json.loads((GOLDEN / "libraries.json").read_text())["cases"][case]
  kind = {"bf16": "<u2", "f16": "<f2", "f32": "<f4"}[golden["dtype"]]
  w = np.frombuffer(bytes.fromhex(golden["x"]), kind)
  w = w.reshape(golden["rows"], golden["cols"])
  seen = 0
  for vector in golden["vectors"]:
    name, library = vector["format"], vector["profile"].partition("@")[0]
    t = q.quantize(w, name, profile=vector["profile"], dtype=golden["dtype"])
    assert hexes(t.rowwise.codes) == vector["codes"], vector["profile"]
    for word, decoded in vector["decoded"].items():
      zero = np.uint16(0x8000) if word == "bf16" else np.array(-0.0)
      found = t.dequantize(word)
      found = found.view(np.uint16) if word == "bf16" else found
      assert hexes(np.where(found == zero, found.dtype.type(0), found)) == decoded
    if library == "comfy":
      for write in WRITERS.values():
        with pytest.raises(quantd.Invalid):
          write(t, "m")
    if library not in WRITERS:
      continue
    amax = 3.0 if (library, name) == ("modelopt", "fp8_e4m3") else None
    try:
      made = WRITERS[library](t, "m", amax)
    except quantd.Invalid as error:
      assert error.field == "format"
      continue
    codes = made.get("m.weight_packed", made.get("m.weight"))
    assert hexes(codes) == vector["codes"]
    assert hexes(made["m.weight_scale"]) == vector["scales"], (library, name)
    if vector.get("global"):
      suffix, shape = {"modelopt": ("weight_scale_2", ())}.get(
          library, ("weight_global_scale", (1,)))
      scale = made[f"m.{suffix}"]
      assert (hexes(scale), scale.shape) == (vector["global"], shape)
    seen += 1
  assert seen > 4


def hexes(array):
  return np.ascontiguousarray(array).tobytes().hex()


def test_dialects_of_te(q, x):
  t = q.quantize(x, "nvfp4", scale_layout="swizzled")
  scale = np.float32(2688) / t.amax[0]
  made = t.to_modelopt("a.b", input_amax=2688.0)
  assert list(made) == ["a.b.weight", "a.b.weight_scale", "a.b.weight_scale_2",
                        "a.b.input_scale"]
  assert made["a.b.weight_scale"].shape == (96, 10)
  assert made["a.b.weight_scale_2"] == np.float32(1) / scale
  assert made["a.b.input_scale"] == 1
  assert t.to_compressed_tensors("a")["a.weight_global_scale"][0] == scale
  with contextlib.suppress(ImportError):
    import torch
    for key, value in t.to_modelopt("a.b", 2688.0, like="torch").items():
      assert value.reshape(-1).view(torch.uint8).numpy().tobytes() == (
          np.ascontiguousarray(made[key]).tobytes()), key
  for wrong in (q.quantize(x, "nvfp4", usage="columnwise"),
                q.quantize(x, "nvfp4", rht="rowwise"), q.quantize(x, "fp8_e5m2"),
                q.quantize(x, "nvfp4", profile="compressed-tensors@0.20")):
    with pytest.raises(quantd.Invalid):
      wrong.to_modelopt("m")


# --- several tensors ----------------------------------------------------------


def test_many(q, x):
  weights = {f"w{i}": x * i for i in range(12)}
  made = q.quantize_all(weights, "nvfp4", usage="both")
  assert list(made) == list(weights)
  for name, t in made.items():
    same(t, q.quantize(weights[name], "nvfp4", usage="both"))


# --- representation -----------------------------------------------------------


def test_reprs(q, x):
  t = q.quantize(x, "nvfp4", usage="both", rht="columnwise", statistics=True)
  for words in ("nvfp4", "96 x 160 f32", "KiB", "dB", "columnwise"):
    assert words in repr(t)
  assert "codes uint8 [96, 80]" in repr(t.rowwise)
  assert q.target in repr(q)
