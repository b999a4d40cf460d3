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
WITH_SCALES = ("nvfp4", "fp8")
# With these sizes, blocks of 128 fill every weight.
BLOCKS = SIZES | {"hidden_size": 128, "num_key_value_heads": 4}
AT_RUN_TIME = ("fp8", "fp8_dynamic", "fp8_block", "mxfp8")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  """A Llama, and its conversions in both dialects and formats with input scales."""
  torch.manual_seed(4)
  folder = tmp_path_factory.mktemp("models")
  model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**BLOCKS))
  for parameter in model.parameters():
    parameter.data *= 1 + (parameter.dim() == 2) * 4
  plain = saved(model, folder / "plain")
  found = quantd.calibrate(plain, ids(2, length=64), quantctl=QUANTCTL)
  found.save(folder / "amax.json")
  for dialect in ("compressed-tensors", "modelopt"):
    for format in WITH_SCALES:
      quantd.convert(plain, folder / f"{dialect}-{format}", format=format, dialect=dialect,
                     input_amax=folder / "amax.json", server="local:cpu", quantctl=QUANTCTL)
  return folder


def evaluated(models, name, q, batches):
  return quantd.evaluate(models / "plain", models / name, batches, connection=q,
                         quantctl=QUANTCTL)


def test_a_model_is_equal_to_itself(models, q):
  batches = ids(3, rows=2, length=20)
  found = evaluated(models, "plain", q, batches)
  assert (found.kl, found.top1, found.tokens, found.modules) == (0, 1, 120, {})
  assert (found.loss, found.errors) == (0, {"loss": 0, "kl": 0, "top1": 0})
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
  amax = json.loads((models / "amax.json").read_text())["input_amax"][MODULE]
  rounded = nvfp4 if "nvfp4" in name else fp8
  error = error_by_hand(models, models / name, batches, lambda x: rounded(x, amax), tmp_path)
  assert found.modules[MODULE] == pytest.approx(error, rel=.01)


@pytest.mark.parametrize("format", AT_RUN_TIME)
def test_activations_are_rounded_with_scales_computed_at_run_time(models, q, format, tmp_path):
  batches = ids(2, length=300)
  quantd.convert(models / "plain", tmp_path / "m", format=format, server="local:cpu",
                 quantctl=QUANTCTL)
  found = evaluated(models, tmp_path / "m", q, batches)
  rounded = {"mxfp8": mxfp8, "fp8_block": fp8_block}.get(format, fp8_of_rows)
  error = error_by_hand(models, tmp_path / "m", batches, rounded, tmp_path)
  assert not found.notes and found.modules[MODULE] == pytest.approx(error, rel=.01)


MODULE = "model.layers.0.self_attn.q_proj"


def error_by_hand(models, quantized, batches, rounded, folder):
  """Computes the relative error of a module of the first layer."""
  plain = loaded(models / "plain")
  quantd.convert(quantized, folder / "decoded", dialect="none", format="bf16",
                 quantctl=QUANTCTL)
  weights = [dict(m.named_modules())[MODULE].weight.detach().float()
             for m in (plain, loaded(folder / "decoded"))]
  with torch.no_grad():
    x = torch.cat([plain.model.layers[0].input_layernorm(plain.model.embed_tokens(b))[0]
                   for b in batches]).float().numpy()
  want = torch.tensor(x) @ weights[0].T
  return float((torch.tensor(rounded(x)) @ weights[1].T - want).norm() / want.norm())


def e4m3(x):
  return torch.tensor(x).clamp(-448, 448).to(torch.float8_e4m3fn).float().numpy()


def fp8_of_rows(x):
  scale = np.abs(x).max(1, keepdims=True) / 448
  return e4m3(x / scale) * scale


def fp8_block(x):
  return fp8_of_rows(x.reshape(-1, 128)).reshape(x.shape)


def mxfp8(x):
  blocks = x.reshape(-1, 32)
  scale = np.exp2(np.ceil(np.log2(np.abs(blocks).max(1, keepdims=True) / 448)))
  return (e4m3(blocks / scale) * scale).reshape(x.shape)


def fp8(x, amax):
  scale = amax / 448
  return e4m3(x / scale) * np.float32(scale)


def nvfp4(x, amax):
  """Rounds blocks of 16 to E2M1, with an E4M3 scale each and a global scale."""
  levels = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)
  blocks = x.reshape(-1, 16)
  whole = np.float32(2688 / amax)
  scale = e4m3(np.abs(blocks).max(1, keepdims=True) / 6 * whole) / whole
  sized = np.abs(blocks) / np.maximum(scale, 1e-30)
  nearest = levels[np.abs(sized[..., None] - levels).argmin(-1)]
  return (np.sign(blocks) * nearest * scale).reshape(x.shape).astype(np.float32)


def test_notes_name_what_is_not_imitated(models, q, tmp_path):
  quantd.convert(models / "plain", tmp_path / "m", format="fp8", kv_cache="fp8",
                 input_amax=models / "amax.json", server="local:cpu", quantctl=QUANTCTL)
  assert evaluated(models, tmp_path / "m", q, ids(1)).notes == [
      "keys and values are not quantized: m"]


def test_errors_are_those_of_the_mean_over_rows(models, q):
  name, batches = "compressed-tensors-nvfp4", ids(6, rows=2, length=40)
  found = evaluated(models, name, q, batches)
  alone = [quantd.evaluate(models / "plain", models / name, [row[None]], connection=q,
                           quantctl=QUANTCTL, by_module=False)
           for b in batches for row in b]
  for measure in ("loss", "kl", "top1"):
    values = [getattr(one, measure) for one in alone]
    assert getattr(found, measure) == pytest.approx(np.mean(values), rel=1e-4)
    spread = np.std(values, ddof=1) / len(values) ** .5
    assert found.errors[measure] == pytest.approx(spread, rel=1e-3)
    size = 40 - (measure == "loss")
    assert np.array(found.rows[measure]) / size == pytest.approx(values, rel=1e-4, abs=1e-6)
  assert found.loss == pytest.approx(np.log(found.perplexity[1] / found.perplexity[0]))
  assert alone[0].errors == alone[0].modules == {}


def test_encoders_are_compared_by_their_embeddings(q, tmp_path):
  torch.manual_seed(6)
  sizes = {k: SIZES[k] for k in ("vocab_size", "hidden_size", "num_hidden_layers",
                                 "num_attention_heads", "intermediate_size")}
  model = transformers.BertModel(transformers.BertConfig(**sizes))
  for parameter in model.parameters():
    parameter.data *= 1 + (parameter.dim() == 2) * 4
  plain = saved(model, tmp_path / "plain")
  quantd.convert(plain, tmp_path / "m", format="mxfp4", server="local:cpu",
                 quantctl=QUANTCTL)
  batches = ids(3, rows=2)
  found = quantd.evaluate(plain, tmp_path / "m", batches, connection=q, quantctl=QUANTCTL)
  quantd.convert(tmp_path / "m", tmp_path / "decoded", dialect="none", format="bf16",
                 quantctl=QUANTCTL)
  with torch.no_grad():
    one, other = (torch.cat([bert(b).last_hidden_state.double().mean(1) for b in batches])
                  for bert in (transformers.BertModel.from_pretrained(
                      tmp_path / name, dtype=torch.bfloat16) for name in ("plain", "decoded")))
  cosines = torch.cosine_similarity(one, other)
  assert 1e-5 < 1 - found.cosine == pytest.approx(1 - float(cosines.mean()), rel=1e-3)
  assert found.errors["cosine"] == pytest.approx(float(cosines.std()) / 6 ** .5, rel=1e-2)
  assert found.perplexity is None and found.table().startswith("cosine of embeddings 0.9")
  assert len(found.modules) == 12


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
