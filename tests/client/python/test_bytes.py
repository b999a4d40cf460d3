"""Compares files with those of quantctl, and shapes with the server's."""

import itertools
import os
import subprocess

import numpy as np

import quantd
from quantd import options, words
from quantd.options import QuantizeKeywords
from quantd.tensors import geometry
from quantd import quantd_pb2 as pb

FORMATS = [
    "nvfp4", "nvfp4_2d", "fp8_e4m3", "fp8_e5m2", "mxfp8_e4m3", "mxfp8_e5m2",
    "mxfp4", "fp8_block_e4m3", "fp8_block_e5m2", "fp8_block_2d_e4m3",
    "fp8_block_2d_e5m2", "fp8_channel_e4m3"
]
# Keywords of the package that are used together, and quantctl's equal flags.
TOGETHER = [
    ({"rht": "both", "sign_mask": "0x1234", "rht_dimension": 32},
     ["--rht", "both", "--sign-mask", "0x1234", "--rht-dimension", "32"]),
    ({"stochastic": 7, "seed_offset": 3, "shard": (32, 0, 320)},
     ["--rounding", "stochastic", "--seed", "7", "--seed-offset", "3",
      "--row-offset", "32", "--total-columns", "320"]),
    ({"four_over_six": "mse", "scale_256": True, "fast_error": True},
     ["--four-over-six", "mse", "--scale-256", "--fast-error"]),
    ({"given_amax": 90.5}, ["--rowwise-amax", "90.5"]),
    ({"rht": "columnwise", "amax_estimation_scale": 2},
     ["--rht", "columnwise", "--estimate", "2"]),
    ({"splits": [32, 0, 64]}, ["--splits", "32,0,64"]),
    ({"dbias": "bf16", "amax": True},
     ["--dbias", "--dbias-dtype", "bf16", "--plain-amax"]),
]


def alone(message=pb.QuantizeOptions.DESCRIPTOR):
  """Lists fields with a value other than the default, as keyword and flags."""
  for field in message.fields:
    name, flag = field.name, "--" + field.name.replace("_", "-")
    if field.message_type is not None:
      yield from alone(field.message_type)
    elif field.enum_type is not None:
      others = list(words.Words(field.enum_type))[1:]
      for word in others if name == "profile" else others[:1]:
        yield {name: word}, [flag, word]
    elif field.type == field.TYPE_BOOL and field.containing_oneof:
      yield {name: False}, [flag, "no"]
    elif field.type == field.TYPE_BOOL:
      yield {name: True}, [flag]
    elif field.type == field.TYPE_FLOAT:
      yield {name: 1e20}, [flag, "1e20"]


def cases(q):
  """Lists every format with every usage, and with every option that it has."""
  known = set(QuantizeKeywords.__annotations__) - {"usage"}
  for name in FORMATS:
    for usage in ("rowwise", "columnwise", "both"):
      yield name, {"usage": usage}, ["--usage", usage]
    for keywords, flags in (*TOGETHER, *alone()):
      # Some fields have a keyword of another name; see TOGETHER.
      for usage in ("both", "columnwise", "rowwise") if known >= set(keywords) else ():
        try:
          q.plan((96, 160), name, usage=usage, **keywords)
        except quantd.Invalid:
          continue
        yield name, {"usage": usage, **keywords}, ["--usage", usage, *flags]
        break


def test_files_equal_those_of_quantctl(q, server, x, tmp_path):
  """Codes, scales and header equal the C++ client's over the support matrix."""
  inputs = tmp_path / "x.npy"
  np.save(inputs, x)
  ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
  seen, processes = 0, []
  todo = list(cases(q))
  assert len(todo) > 150
  # Files keep no history. quantctl has no flag for partial splits.
  assert {key for _, keywords, _ in todo for key in keywords} >= set(
      QuantizeKeywords.__annotations__) - {
          "history", "history_rule", "history_margin", "partial_splits"}

  def start(i, name, flags):
    out = tmp_path / f"{i}.safetensors"
    return out, subprocess.Popen(
        [os.environ["QUANTCTL"], "quantize", inputs, "--server", server,
         "--format", name, "-o", out, *flags],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

  for i, (name, keywords, flags) in enumerate(todo):
    processes.append((name, keywords, *start(i, name, flags)))
    if len(processes) < 4 and i + 1 < len(todo):
      continue
    for name, keywords, theirs, process in processes:
      _, error = process.communicate()
      assert process.returncode == 0, (name, keywords, error.decode())
      q.quantize(x, name, **keywords).save(ours, "x")
      assert ours.read_bytes() == theirs.read_bytes(), (name, keywords)
      seen += 1
    processes = []
  assert seen == len(todo)


def test_plans_equal_the_servers_descriptions(q):
  """The package computes the same shapes as the server, part by part."""
  shapes = [(96, 160), (3, 5, 64), (0, 32), (200, 416)]
  checked = 0
  for (name, keywords, _), shape in itertools.product(cases(q), shapes):
    keywords = dict(keywords)
    rows = int(np.prod(shape[:-1]))
    if "splits" in keywords:
      keywords.update(splits=[rows // 3, rows - rows // 3 - 1], partial_splits=True) \
          if rows else keywords.update(splits=[0])
    keywords.pop("given_amax", None)
    keywords.pop("shard", None)
    if keywords.get("scale") is not None:
      keywords["history"] = [1.0, 2.0, 3.0]
    try:
      plan = q.plan(shape, name, **keywords)
    except quantd.Invalid:
      continue
    tensor = pb.Tensor(dtype=pb.DTYPE_BF16, shape=shape)
    specs = geometry.specs(tensor, options.quantize_message(name, keywords))
    ours = {s.kind: (s.dtype, s.shape, s.size) for s in specs}
    theirs = {k: (p.dtype, p.shape, p.nbytes) for k, p in plan.parts.items()}
    assert list(ours.items()) == list(theirs.items()), (name, keywords, shape)
    checked += 1
  assert checked > 300


def test_parts_go_into_buffers(q, x):
  codes = np.zeros((96, 80), np.uint8)
  amax = np.zeros(1, np.float32)
  t = q.quantize(x, "nvfp4", out={"rowwise_data": codes, "rowwise_amax": amax})
  assert np.array_equal(codes, q.quantize(x, "nvfp4").rowwise.codes)
  assert amax[0] == np.abs(x).max() == t.amax[0]
  assert np.shares_memory(t.rowwise.codes, codes)
  back = np.zeros_like(x)
  assert t.dequantize(out=back) is back
  assert np.array_equal(back, t.dequantize())


def test_fused_weights_share_one_amax(q, x):
  parts = [x[:32], x[32:80] * 3, x[80:]]
  t = q.quantize(parts[0], "nvfp4", fused=parts[1:], profile="modelopt@0.47")
  most = max(np.abs(p).max() for p in parts)
  for part, made in zip(parts, (t, *t.fused)):
    alone = q.quantize(part, "nvfp4", profile="modelopt@0.47", given_amax=float(most))
    assert made.shape == part.shape
    for kind in alone.parts:
      assert np.array_equal(made.parts[kind].data, alone.parts[kind].data), kind


def test_amaxes_and_rotation(q, x):
  found = q.amax(x, rht=True)
  assert found.rowwise[0] == found.columnwise[0] == np.abs(x).max()
  turned = q.apply_rht(x)
  bits = turned.view(np.uint32)
  rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)
  assert found.rowwise_rht[0] == np.abs(rounded).max()
  by_row = q.amax(x, domain="row")
  assert np.array_equal(by_row.rowwise, np.abs(x).max(1))
  assert np.array_equal(by_row.columnwise, np.abs(x).max(0))
  t = q.quantize(x, "nvfp4", usage="both", rht="columnwise")
  assert t.columnwise.amax[0] == found.columnwise_rht[0]
  assert t.columnwise.rotated and not t.rowwise.rotated
  padded = q.quantize(x[:50], "nvfp4", rht="columnwise")
  assert padded.dequantize(rotated=True).shape == (64, 160)
  assert padded.dequantize().shape == (50, 160)


def test_delayed_scaling(q, x):
  t = q.quantize(x, "fp8_e4m3", scale=2.0, history=[9.0, 5.0, 7.0])
  assert t.part("amax_history").tolist() == [0, 7, np.abs(x).max()]
  assert t.part("next_scale")[0] == np.float32(448) / np.abs(x).max()


def test_statistics(q, x):
  stats = q.quantize(x, "mxfp8_e4m3", statistics=True).stats
  assert stats.elements == x.size and stats.sqnr_db > 25
  assert q.quantize(x, "mxfp8_e4m3").stats is None
