"""Tests of Ray Data with quantd.Quantize and real workers while a server dies."""

import os
import signal

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="RAY IS NOT INSTALLED")

import quantd  # noqa: E402

from rig import pair, records, truth  # noqa: E402, F401

from metered import RECORDS  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster():
  os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
  ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False,
           object_store_memory=200 << 20)
  yield
  ray.shutdown()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_every_record_once(pair, records, truth, how):
  a, b = pair
  watch = b.kill_after(1000, how)
  data = ray.data.from_items(
      [{"id": i, "x": x} for i, x in enumerate(records)], override_num_blocks=8)
  out = data.map_batches(
      quantd.Quantize,
      fn_constructor_args=(f"{a.address},{b.address}", "nvfp4"),
      fn_constructor_kwargs={"column": "x", "dtype": "bf16", "keep": False},
      batch_format="numpy", batch_size=250, concurrency=2,
      num_cpus=1).materialize()
  watch.join(30)
  assert b.killed_after is not None and b.killed_after < RECORDS / 2, (
      "the server was not killed in time")
  seen = {}
  for batch in out.iter_batches(batch_format="numpy", batch_size=1000):
    assert set(batch) == {"id", "codes", "scales", "amax"}
    rows = zip(batch["id"], batch["codes"], batch["scales"], batch["amax"],
               strict=True)
    for i, codes, scales, amax in rows:
      assert i not in seen, f"record {i} arrived twice"
      assert amax.dtype == np.float32 and codes.shape == (16, 32)
      seen[int(i)] = (codes.tobytes(), scales.tobytes(), amax.tobytes())
  assert sorted(seen) == list(range(RECORDS))
  assert [i for i in range(RECORDS) if seen[i] != truth[i]] == []


def test_ragged_records_and_both_copies(q, server):
  """Records have several shapes, and all requested parts become columns."""
  made = quantd.Quantize(
      server, "nvfp4", column="x", keep=False, prefix="q_", usage="both",
      rht="columnwise", amax=True)
  shapes = [(16, 64), (32, 64), (48, 32)]
  ragged = np.empty(3, object)
  ragged[:] = [np.full(s, i + 1, np.float32) for i, s in enumerate(shapes)]
  out = made({"x": ragged, "id": np.arange(3)})
  assert set(out) == {"id", *made.columns}
  for i in range(3):
    t = q.quantize(ragged[i], "nvfp4", usage="both", rht="columnwise", amax=True)
    assert out["q_codes"][i].tobytes() == t.rowwise.codes.tobytes()
    assert (out["q_columnwise_scales"][i].tobytes()
            == t.columnwise.scales.tobytes())
    assert out["q_tensor_amax"][i] == i + 1


def test_a_bad_record_is_named(server):
  made = quantd.Quantize(server, "nvfp4", column="x", usage="both")
  with pytest.raises(quantd.Invalid) as failed:
    made({"x": np.ones((2, 3, 5), np.float64)})
  assert failed.value.field == "tensor.dtype"
  assert "record 0" in failed.value.__notes__[0]
  with pytest.raises(quantd.Invalid, match="column"):
    made({"y": np.ones((2, 16, 64), np.float32)})
  for bad in ({"splits": [1]}, {"stochastic": True}):
    with pytest.raises(quantd.Invalid):
      quantd.Quantize(server, **bad)
  with pytest.raises(quantd.Invalid, match="prefix"):
    made({"x": np.ones((2, 16, 64), np.float32), "codes": np.ones(2)})
