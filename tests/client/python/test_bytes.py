"""Compares files with those of quantctl, and shapes with the server's."""

import itertools
import os
import subprocess

import numpy as np

import quantd
from quantd import options, words
from quantd.tensors import geometry
from quantd import quantd_pb2 as pb

FORMATS = [
    "nvfp4", "nvfp4_2d", "fp8_e4m3", "fp8_e5m2", "mxfp8_e4m3", "mxfp8_e5m2",
    "mxfp4", "fp8_block_e4m3", "fp8_block_e5m2", "fp8_block_2d_e4m3",
    "fp8_block_2d_e5m2", "fp8_channel_e4m3"
]
# Keywords of the package and the equivalent flags of quantctl.
OPTIONS = {
    "rht": ({"rht": "both", "sign_mask": "0x1234"},
            ["--rht", "both", "--sign-mask", "0x1234"]),
    "stochastic": ({"stochastic": 7, "seed_offset": 3, "shard": (32, 0, 320)},
                   ["--rounding", "stochastic", "--seed", "7", "--seed-offset",
                    "3", "--row-offset", "32", "--total-columns", "320"]),
    "row_scaled": ({"row_scaled": True}, ["--row-scaled"]),
    "four_over_six": ({"four_over_six": "mse", "scale_256": True},
                      ["--four-over-six", "mse", "--scale-256"]),
    "swizzled": ({"scale_layout": "swizzled"}, ["--scale-layout", "swizzled"]),
    "compact": ({"compact_scales": True}, ["--compact-scales"]),
    "given_amax": ({"given_amax": 90.5}, ["--rowwise-amax", "90.5"]),
    "estimation": ({"rht": "columnwise", "amax_estimation_scale": 2},
                   ["--rht", "columnwise", "--estimate", "2"]),
    "epsilon": ({"epsilon": 1e20}, ["--epsilon", "1e20"]),
    "power_of_two": ({"power_of_two": False}, ["--power-of-two", "no"]),
    "given_scale": ({"scale": 3.5}, ["--scale", "3.5"]),
    "scale_rule": ({"scale_rule": "even"}, ["--scale-rule", "even"]),
    "grouped": ({"splits": [32, 0, 64]}, ["--splits", "32,0,64"]),
    "dbias": ({"dbias": "bf16", "amax": True},
              ["--dbias", "--dbias-dtype", "bf16", "--plain-amax"]),
    "statistics": ({"statistics": True}, ["--statistics"]),
    "non_finite": ({"non_finite": "propagate"}, ["--non-finite", "propagate"]),
}


def cases(q):
  """Lists every format with its options and usages, and every profile."""
  formats = q.info().formats
  for name in FORMATS:
    has = formats[name].options
    for usage in ("rowwise", "columnwise", "both"):
      yield name, {"usage": usage}, ["--usage", usage]
    for option, (keywords, flags) in OPTIONS.items():
      if option in has or option == "non_finite":
        usage = "columnwise" if "rht" in keywords and "est" in option else "both"
        if option == "given_amax" and name == "fp8_channel_e4m3":
          continue  # it needs an amax for each line
        yield name, {"usage": usage, **keywords}, ["--usage", usage, *flags]
    for profile in words.PROFILES:
      keywords = {"profile": profile}
      try:
        q.plan((96, 160), name, **keywords)
      except quantd.Invalid:
        continue
      yield name, keywords, ["--profile", profile]


def test_files_equal_those_of_quantctl(q, server, x, tmp_path):
  """Codes, scales and header equal the C++ client's over the support matrix."""
  inputs = tmp_path / "x.npy"
  np.save(inputs, x)
  ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
  seen, processes = 0, []
  todo = list(cases(q))
  assert len(todo) > 120

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
