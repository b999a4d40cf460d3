"""Tests that `quantd.convert` has the files, plan and progress of `quantctl convert`."""

import json
import os
import stat
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

import quantd

QUANTCTL = os.environ["QUANTCTL"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  """Two layers of a llama, in one file."""
  folder = tmp_path_factory.mktemp("models") / "model"
  folder.mkdir()
  random = np.random.default_rng(4)
  shapes = {"model.embed_tokens.weight": (64, 64), "model.norm.weight": (64,)}
  for layer in (0, 1):
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                 "self_attn.o_proj", "mlp.up_proj"):
      shapes[f"model.layers.{layer}.{name}.weight"] = (64, 64)
  head, body = {}, b""
  for name, shape in shapes.items():
    data = random.standard_normal(shape).astype(np.float32).tobytes()
    head[name] = {"dtype": "F32", "shape": list(shape),
                  "data_offsets": [len(body), len(body) + len(data)]}
    body += data
  text = json.dumps(head).encode()
  text += b" " * (-len(text) % 8)
  (folder / "model.safetensors").write_bytes(
      len(text).to_bytes(8, "little") + text + body)
  (folder / "config.json").write_text(json.dumps({
      "architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "num_hidden_layers": 2, "hidden_size": 64, "tie_word_embeddings": False}))
  return folder


def files(folder):
  return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_files_equal_those_of_the_command(model, tmp_path):
  rules = ["--format", "nvfp4", "--ignore", "*.o_proj",
           "--rule", "*.up_proj=mxfp8", "--statistics", "--server", "local"]
  done = subprocess.run(
      [QUANTCTL, "convert", "--json", *rules, model, tmp_path / "theirs"],
      check=True, capture_output=True, text=True)
  events = [json.loads(line) for line in done.stdout.splitlines()]
  told = []
  made = quantd.convert(
      model, tmp_path / "ours", format="nvfp4",
      ignore=["*.o_proj"], rule={"*.up_proj": "mxfp8"}, statistics=True, server="local",
      report=tmp_path / "report", quantctl=QUANTCTL,
      progress=lambda *at: told.append(at))
  assert files(tmp_path / "ours") == files(tmp_path / "theirs")
  plan = next(e for e in events if e.pop("event") == "plan")
  assert made.plan == plan and made.output == str(tmp_path / "ours")
  modules = sorted(m for w in made.weights for m in w["modules"])
  assert modules == sorted(w["module"] for g in plan["groups"] for w in g)
  assert all("sqnr_db" in w for w in made.weights)
  assert made.total["weights"] == len(modules) == 8
  assert (tmp_path / "report/report.json").exists()
  dones = [done for done, _ in told]
  assert dones == sorted(set(dones)) and dones[0] == 0
  assert told[-1] == (8 * 64 * 64 * 4,) * 2 and {of for _, of in told} == {told[-1][1]}


def test_a_plan_alone(model, tmp_path):
  made = quantd.convert(model, tmp_path / "out", dry_run=True, quantctl=QUANTCTL)
  assert made.plan["groups"] and not made.weights and not made.total
  assert not (tmp_path / "out").exists()


def test_errors_are_typed(model, tmp_path):
  def convert(*args, **options):
    return quantd.convert(*args, **{"quantctl": QUANTCTL, **options})

  out = tmp_path / "out"
  with pytest.raises(quantd.Invalid, match="none"):
    convert(tmp_path / "none", out)
  with pytest.raises(quantd.Invalid, match="nvfp5"):
    convert(model, out, format="nvfp5")
  with pytest.raises(quantd.Unavailable):
    convert(model, out, server="127.0.0.1:1", deadline=1)
  with pytest.raises(TypeError, match="did you mean 'format'"):
    convert(model, out, formats="nvfp4")
  with pytest.raises(quantd.Invalid, match="only"):
    convert(model, out, only=[object()])
  with pytest.raises(quantd.Invalid, match="quantctl"):
    convert(model, out, quantctl=tmp_path / "none")


def test_an_exception_in_progress_ends_the_conversion(model, tmp_path):
  def enough(done, of):
    raise LookupError("enough")

  with pytest.raises(LookupError, match="enough"):
    quantd.convert(model, tmp_path / "out", server="local", quantctl=QUANTCTL,
                   progress=enough)
  made = quantd.convert(model, tmp_path / "out", server="local", quantctl=QUANTCTL)
  assert made.total["weights"] == 10


def test_the_program_is_found_or_said_to_be_missing(model, tmp_path, monkeypatch):
  monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "scripts"))
  monkeypatch.setenv("PATH", str(tmp_path / "bin"))
  with pytest.raises(quantd.Unimplemented, match="native wheel.*quantctl=PATH"):
    quantd.convert(model, tmp_path / "out", dry_run=True)
  for folder in ("bin", "scripts"):
    program = tmp_path / folder / "quantctl"
    program.parent.mkdir()
    line = json.dumps({"event": "plan", "groups": [], "found": folder})
    program.write_text(f"#!{sys.executable}\nprint({line!r})\n")
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    made = quantd.convert(model, tmp_path / "out", dry_run=True)
    assert made.plan["found"] == folder
