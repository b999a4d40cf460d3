"""Tests of the weight sync example with real PyTorch."""

import signal

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="TORCH IS NOT INSTALLED")

import quantd  # noqa: E402

from rig import pair  # noqa: E402, F401

import torch_sync  # noqa: E402  of the examples
from torch_sync import WeightSync  # noqa: E402


def bits(tensor):
  return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def state(seed=3):
  """Returns weights whose amaxes differ, so that a shared one changes bytes."""
  tensors = torch_sync.model(seed).state_dict()
  for i, tensor in enumerate(tensors.values()):
    tensor.mul_(1 + i / 4)
  return tensors


def sent(sync, tensors):
  out = {}
  for bucket in sync.buckets(tensors):
    assert not out.keys() & bucket.keys()
    out |= bucket
  return out


CASES = [
    ("nvfp4", "modelopt"), ("nvfp4", "compressed-tensors"),
    ("fp8_e4m3", "compressed-tensors"), ("mxfp8_e4m3", "modelopt"),
    ("mxfp8_e4m3", "compressed-tensors"), ("mxfp4", "compressed-tensors"),
    ("fp8_channel_e4m3", "compressed-tensors"),
]


@pytest.mark.parametrize("name, dialect", CASES)
def test_tensors_follow_the_dialect(q, name, dialect):
  """Names, types and bytes equal those of direct calls with fused siblings."""
  tensors = state()
  out = sent(WeightSync(q, name, dialect=dialect), tensors)
  profile = {"modelopt": "modelopt@0.47"}.get(dialect, "compressed-tensors@0.20")
  want = {k: v for k, v in tensors.items() if not torch_sync.is_linear(k, v)}
  groups = [["q_proj", "k_proj", "v_proj"], ["o_proj"], ["gate_proj", "up_proj"],
            ["down_proj"]]
  fuses = name in ("nvfp4", "fp8_e4m3")
  for group in groups if fuses else [[n] for g in groups for n in g]:
    names = [next(k for k in tensors if f".{n}." in k) for n in group]
    first = q.quantize(tensors[names[0]], name, profile=profile,
                       fused=[tensors[n] for n in names[1:]])
    for n, t in zip(names, (first, *first.fused), strict=True):
      method = t.to_modelopt if dialect == "modelopt" else t.to_compressed_tensors
      want |= method(n.removesuffix(".weight"))
  assert set(out) == set(want)
  for n, x in want.items():
    shape = tuple(x.shape)
    assert (tuple(out[n].shape), bits(out[n])) == (shape, bits(x)), n


def test_no_tensor_is_lost_when_a_server_dies(pair, q):
  """Every tensor arrives once and correctly although one of two servers dies.
  """
  a, b = pair
  values = np.random.default_rng(2).standard_normal((2000, 32, 64), np.float32)
  tensors = {f"l.{i}.down_proj.weight": torch.from_numpy(x)
             for i, x in enumerate(values)}
  watch = b.kill_after(200, signal.SIGKILL)
  with quantd.connect(f"{a.address},{b.address}") as two:
    out = sent(WeightSync(two, dialect="modelopt", bucket_bytes=50000), tensors)
  watch.join(30)
  assert b.killed_after is not None and b.killed_after < 1000, (
      "the server was not killed in time")
  want = {}
  for name, x in tensors.items():
    t = q.quantize(x, "nvfp4", profile="modelopt@0.47")
    want |= t.to_modelopt(name.removesuffix(".weight"))
  assert {k: bits(v) for k, v in out.items()} == {k: bits(v) for k, v in want.items()}


def test_unchanged_tensors_are_not_sent(q):
  sync, tensors = WeightSync(q, "nvfp4", dialect="modelopt"), state()
  everything = sent(sync, tensors)
  assert sent(sync, tensors) == {}
  # A change of one element in place sends all three siblings again.
  name = next(k for k in tensors if "k_proj" in k)
  with torch.no_grad():
    tensors[name][0, 0] += 1
  again = sent(sync, tensors)
  assert {k.split(".")[-2] for k in again} == {"q_proj", "k_proj", "v_proj"}
  assert len(again) == 9
  norm = next(k for k in tensors if "norm" in k)
  tensors[norm] = tensors[norm] + 1
  assert set(sent(sync, tensors)) == {norm}
  sync.sent.clear()
  assert set(sent(sync, tensors)) == set(everything)


def test_unsent_buckets_are_sent_again(q):
  """A bucket counts as sent when the next one is requested."""
  sync = WeightSync(q, "nvfp4", dialect="modelopt", bucket_bytes=1)
  stream = sync.buckets(state())
  first, second = next(stream), next(stream)
  stream.close()
  rest = sent(sync, state())
  assert not first.keys() & rest.keys() and second.keys() <= rest.keys()


def test_buckets_are_bounded_and_keep_siblings_together(q):
  def nbytes(bucket):
    return sum(t.numel() * t.element_size() for t in bucket.values())
  limit = 40000
  buckets = list(WeightSync(q, "nvfp4", dialect="modelopt",
                            bucket_bytes=limit).buckets(state()))
  assert len(buckets) > 2
  for bucket in buckets:
    modules = {k.rpartition(".")[0] for k in bucket if "_proj" in k}
    leaves = {m.rpartition(".")[2] for m in modules}
    assert nbytes(bucket) <= limit or len(modules) <= 3
    assert len(leaves & {"q_proj", "k_proj", "v_proj"}) in (0, 3)
    assert len(leaves & {"gate_proj", "up_proj"}) in (0, 2)


def test_the_example(server):
  engine, updates = torch_sync.run(server)
  assert updates == [1, 0, 1] and "layers.0.q_proj.weight_scale_2" in engine
