"""Ray Data through quantd.ray, with real workers; a server dies on the way."""

import os
import pathlib
import signal
import subprocess

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="RAY IS NOT INSTALLED")

import quantd.ray  # noqa: E402
from quantd import bands  # noqa: E402

from rig import limit, pair, q, records, server, truth  # noqa: E402, F401

import ray_data  # noqa: E402  of the examples
import ray_model  # noqa: E402
from llama import write_model  # noqa: E402
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
  out = ray_data.run(f"{a.address},{b.address}", records)
  watch.join(30)
  assert b.killed_after is not None and b.killed_after < RECORDS / 2, (
      "the server was not killed in the middle")
  seen = {}
  for batch in out.iter_batches(batch_format="numpy", batch_size=1000):
    assert set(batch) == {"id", "codes", "scales", "amax"}
    rows = zip(batch["id"], batch["codes"], batch["scales"], batch["amax"],
               strict=True)
    for i, codes, scales, amax in rows:
      assert i not in seen, f"record {i} came twice"
      assert amax.dtype == np.float32 and codes.shape == (16, 32)
      seen[int(i)] = (codes.tobytes(), scales.tobytes(), amax.tobytes())
  assert sorted(seen) == list(range(RECORDS))
  assert [i for i in range(RECORDS) if seen[i] != truth[i]] == []


def test_ragged_records_and_both_copies(q, server):
  """Records of several shapes, and columns for all that was asked for."""
  made = quantd.ray.Quantize(
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
  made = quantd.ray.Quantize(server, "nvfp4", column="x", usage="both")
  with pytest.raises(quantd.Invalid) as failed:
    made({"x": np.ones((2, 3, 5), np.float64)})
  assert failed.value.field == "tensor.dtype"
  assert "record 0" in failed.value.__notes__[0]
  with pytest.raises(quantd.Invalid, match="column"):
    made({"y": np.ones((2, 16, 64), np.float32)})
  for bad in ({"splits": [1]}, {"stochastic": True}):
    with pytest.raises(quantd.Invalid):
      quantd.ray.Quantize(server, **bad)
  with pytest.raises(quantd.Invalid, match="prefix"):
    made({"x": np.ones((2, 16, 64), np.float32), "codes": np.ones(2)})


# --- models -------------------------------------------------------------------


def whole(model, out, server, *flags):
  subprocess.run(
      [os.environ["QUANTCTL"], "convert", model, out, "--server", server, *flags],
      check=True, stdout=subprocess.DEVNULL)


def files(folder):
  return {str(p.relative_to(folder)): p.read_bytes()
          for p in sorted(pathlib.Path(folder).rglob("*")) if p.is_file()}


# Without an amax that siblings share there are more bands.
FLAGS = [
    (3, []), (3, ["--dialect", "modelopt"]), (4, ["--format", "fp8_block"]),
    (4, ["--format", "mxfp8", "--ignore", "*.o_proj"]),
]


@pytest.mark.parametrize("count, flags", FLAGS, ids=lambda x: str(x))
def test_a_model_is_that_of_one_process(tmp_path, pair, count, flags):
  """Byte for byte, config and index, too; a server is killed on the way."""
  a, b = pair
  model = write_model(tmp_path / "model")
  whole(model, tmp_path / "whole", a.address, *flags)
  watch = b.kill_after(1, signal.SIGKILL)
  done = ray_model.run(model, tmp_path / "bands", f"{a.address},{b.address}",
                       flags, os.environ["QUANTCTL"])
  watch.join(10)
  assert b.killed_after is not None, "the server was not killed in the middle"
  assert (done.bands, done.resumed) == (count, 0)
  assert files(tmp_path / "bands") == files(tmp_path / "whole")


def test_adapters_beside_the_one_shard_are_left_out(tmp_path, server):
  from llama import write_safetensors
  model = write_model(tmp_path / "model")
  for shard in model.glob("model*.safetensors*"):
    shard.unlink()
  weight = np.full((64, 64), 0x3F80, np.uint16)
  for name in ("adapter_model", "model"):
    write_safetensors(model / f"{name}.safetensors",
                      {"model.layers.0.mlp.down_proj.weight": weight})
  out, quantctl = tmp_path / "out", os.environ["QUANTCTL"]
  quantd.ray.convert(str(model), str(out), servers=server, quantctl=quantctl)
  whole(model, tmp_path / "whole", server)
  assert "model.safetensors" in files(out)
  assert files(out) == files(tmp_path / "whole")


def test_a_conversion_goes_on(tmp_path, server):
  """After a driver and a converter that died, done bands are left alone."""
  model = write_model(tmp_path / "model")
  out, quantctl = tmp_path / "out", os.environ["QUANTCTL"]
  work = bands.prepare(str(model), str(out), server, (), quantctl)
  assert not bands.convert_band(work, 1)
  made = {p: p.stat().st_ino for p in work.folder(1).glob("*.safetensors")}
  assert made
  with pytest.raises(quantd.Invalid, match="begun"):
    quantd.ray.convert(str(model), str(out), servers=server, quantctl=quantctl,
                       flags=["--format", "mxfp8"])
  # Nobody answers: the band is begun, and its journal is left.
  with pytest.raises(quantd.Unavailable):
    quantd.ray.convert(
        str(model), str(out), servers="127.0.0.1:1", quantctl=quantctl,
        attempts=1, flags=())
  done = quantd.ray.convert(
      str(model), str(out), servers=server, quantctl=quantctl)
  assert done.resumed >= 1
  assert {p.name: p.stat().st_ino for p in out.glob("*.safetensors")
          if p.name in {m.name for m in made}} == {
              p.name: inode for p, inode in made.items()}
  whole(model, tmp_path / "whole", server)
  assert files(out) == files(tmp_path / "whole")


def test_a_converter_that_dies_is_started_again(tmp_path, server):
  """Each band's first process is killed by a signal."""
  program = tmp_path / "quantctl"
  program.write_text(
      '#!/bin/sh\n'
      'for last; do :; done\n'
      f'mark={tmp_path}/$(basename "$last")\n'
      'case "$*" in *--dry-run*) ;; *) if [ ! -e "$mark" ]; then\n'
      '  touch "$mark"; kill -9 $$; fi ;; esac\n'
      f'exec {os.environ["QUANTCTL"]} "$@"\n')
  program.chmod(0o755)
  model = write_model(tmp_path / "model")
  done = quantd.ray.convert(str(model), str(tmp_path / "out"), servers=server,
                            quantctl=str(program))
  assert len(list(tmp_path.glob("*.out"))) == done.bands == 3
  whole(model, tmp_path / "whole", server)
  assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_what_cannot_be_cut_is_refused(tmp_path, server):
  quantctl = os.environ["QUANTCTL"]
  model = write_model(tmp_path / "model")

  def refused(match, model=model, output=tmp_path / "out", **keywords):
    with pytest.raises(quantd.Invalid, match=match):
      quantd.ray.convert(str(model), str(output), servers=server,
                         **{"quantctl": quantctl, **keywords})
  refused("one format", flags=["--rule", "*.o_proj=fp8"])
  refused("one conversion", flags=["--format", "auto"])
  refused("outside", output=model / "inside")
  refused("the program", quantctl=str(tmp_path / "none"))
  (tmp_path / "bare").mkdir()
  refused("config.json", model=tmp_path / "bare")
  (tmp_path / "full").mkdir()
  (tmp_path / "full/file").touch()
  refused("empty", output=tmp_path / "full")
  assert not (tmp_path / "out").exists()


def test_bands_that_come_to_another_plan_are_refused(
    tmp_path, server, monkeypatch):
  """The check is the converter's own word, so a wrong cut cannot pass."""
  model = write_model(tmp_path / "model")
  s = sorted(p.name for p in model.glob("*.safetensors"))
  # Siblings of layer 1 lie in the third and the fourth.
  cut = ((s[0], s[1]), (s[2],), (s[3],), (s[4], s[5]))
  monkeypatch.setattr(bands, "_cut", lambda *_: cut)
  with pytest.raises(quantd.Invalid, match="depend on each other"):
    bands.prepare(str(model), str(tmp_path / "out"), server, (),
                  os.environ["QUANTCTL"])
