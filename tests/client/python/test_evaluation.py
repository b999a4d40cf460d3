"""`quantd.evaluate` on tiny models, compared with arithmetic written in these tests."""

import json
import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="NO TORCH: NOTHING IS EVALUATED HERE")
transformers = pytest.importorskip(
    "transformers", reason="NO TRANSFORMERS: NOTHING IS EVALUATED HERE")

import quantd  # noqa: E402
from quantd.evaluation_command import main  # noqa: E402
from test_calibration import SIZES, ids, loaded, one_thread, saved  # noqa: E402, F401

QUANTCTL = os.environ["QUANTCTL"]
FORMATS = ("nvfp4", "fp8", "fp8_dynamic")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  """A Llama, and what convert makes of it in each format, with input scales."""
  torch.manual_seed(4)
  folder = tmp_path_factory.mktemp("models")
  model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
  for parameter in model.parameters():
    parameter.data *= 1 + (parameter.dim() == 2) * 4
  plain = saved(model, folder / "plain")
  found = quantd.calibrate(plain, ids(2, length=64), quantctl=QUANTCTL)
  found.save(folder / "amax.json")
  for dialect in ("compressed-tensors", "modelopt"):
    for format in FORMATS[: 2 if dialect == "modelopt" else 3]:
      words = {} if format == "fp8_dynamic" else {"input_amax": folder / "amax.json"}
      quantd.convert(plain, folder / f"{dialect}-{format}", format=format, dialect=dialect,
                     server="local:cpu", quantctl=QUANTCTL, **words)
  return folder


def evaluated(models, name, q, batches):
  return quantd.evaluate(models / "plain", models / name, batches, connection=q,
                         quantctl=QUANTCTL)


def test_a_model_is_equal_to_itself(models, q):
  batches = ids(3, rows=2, length=20)
  found = evaluated(models, "plain", q, batches)
  assert (found.kl, found.top1, found.tokens, found.modules) == (0, 1, 120, {})
  # The loss that transformers computes.
  model = loaded(models / "plain")
  with torch.no_grad():
    losses = [model(b, labels=b).loss.item() for b in batches]
  assert found.perplexity[0] == found.perplexity[1]
  assert found.perplexity[0] == pytest.approx(np.exp(np.mean(losses)), rel=1e-2)


@pytest.mark.parametrize("name", ["compressed-tensors-nvfp4", "compressed-tensors-fp8",
                                  "modelopt-nvfp4", "modelopt-fp8"])
def test_activations_are_rounded_as_the_file_says(models, q, name, tmp_path):
  batches = ids(2, length=300)
  found = evaluated(models, name, q, batches)
  assert 0 < found.kl < 1 and 0.2 < found.top1 < 1 and len(found.modules) == 14
  assert not found.notes
  # A module of the first layer, computed by hand.
  plain = loaded(models / "plain")
  quantd.convert(models / name, tmp_path / "decoded", dialect="none", format="bf16",
                 quantctl=QUANTCTL)
  module = "model.layers.0.self_attn.q_proj"
  weights = [dict(m.named_modules())[module].weight.detach().float()
             for m in (plain, loaded(tmp_path / "decoded"))]
  with torch.no_grad():
    x = torch.cat([plain.model.layers[0].input_layernorm(plain.model.embed_tokens(b))[0]
                   for b in batches]).float().numpy()
  amax = json.loads((models / "amax.json").read_text())["input_amax"][module]
  rounded = torch.tensor(nvfp4(x, amax) if "nvfp4" in name else fp8(x, amax))
  want = torch.tensor(x) @ weights[0].T
  error = (rounded @ weights[1].T - want).norm() / want.norm()
  assert found.modules[module] == pytest.approx(float(error), rel=.01)


def e4m3(x):
  return torch.tensor(x).clamp(-448, 448).to(torch.float8_e4m3fn).float().numpy()


def fp8(x, amax):
  scale = amax / 448
  return e4m3(x / scale) * np.float32(scale)


def nvfp4(x, amax):
  """Rounds blocks of 16 to E2M1, with an E4M3 scale for each and one for all."""
  levels = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)
  blocks = x.reshape(-1, 16)
  whole = np.float32(2688 / amax)
  scale = e4m3(np.abs(blocks).max(1, keepdims=True) / 6 * whole) / whole
  sized = np.abs(blocks) / np.maximum(scale, 1e-30)
  nearest = levels[np.abs(sized[..., None] - levels).argmin(-1)]
  return (np.sign(blocks) * nearest * scale).reshape(x.shape).astype(np.float32)


def test_notes_name_what_is_not_imitated(models, q, tmp_path):
  found = evaluated(models, "compressed-tensors-fp8_dynamic", q, ids(1))
  assert "computed at run time" in found.notes[0] and found.kl > 0
  quantd.convert(models / "plain", tmp_path / "m", format="fp8", kv_cache="fp8",
                 input_amax=models / "amax.json", server="local:cpu", quantctl=QUANTCTL)
  assert evaluated(models, tmp_path / "m", q, ids(1)).notes == [
      "keys and values are not quantized: m"]


def test_the_command_prints_a_line_for_each_layer(models, server, tmp_path, capsys):
  data = tmp_path / "data.txt"
  data.write_text("\n".join(f"line {i} of some text" for i in range(30)))
  out = tmp_path / "out.json"
  name = models / "compressed-tensors-nvfp4"
  main([str(models / "plain"), str(name), "--data", str(data), "--length", "64",
        "--server", server, "--json", str(out), "--quantctl", QUANTCTL])
  said = capsys.readouterr().out.splitlines()
  assert said[0].startswith("perplexity ") and said[2].startswith("model.layers.0 ")
  assert len(said) == 4 and len(json.loads(out.read_text())["modules"]) == 14
  with pytest.raises(SystemExit, match="a directory with a config.json"):
    main([str(models / "plain"), str(tmp_path), "--data", str(data)])
  assert "notes" in json.loads(out.read_text())


def test_rows_without_a_next_token_are_refused(models, q):
  with pytest.raises(quantd.Invalid, match="rows of at least two tokens"):
    evaluated(models, "plain", q, [])
