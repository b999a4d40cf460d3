"""Tests of `quantd.calibrate` and `python -m quantd calibrate` on tiny models,
against independent hooks and arithmetic."""

import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="NO TORCH: NOTHING IS CALIBRATED HERE")
transformers = pytest.importorskip(
    "transformers", reason="NO TRANSFORMERS: NOTHING IS CALIBRATED HERE")

import quantd  # noqa: E402
from quantd.calibration_command import main  # noqa: E402
from quantd.calibration_file import merge  # noqa: E402
from quantd.calibration_hooks import Meter  # noqa: E402

QUANTCTL = os.environ["QUANTCTL"]
SIZES = dict(vocab_size=256, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, intermediate_size=128, tie_word_embeddings=False)
EXPERTS = {
    "qwen3": lambda: transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(
        **SIZES, head_dim=16, moe_intermediate_size=32, num_experts=8,
        num_experts_per_tok=2)),
    "mixtral": lambda: transformers.MixtralForCausalLM(transformers.MixtralConfig(
        **SIZES, num_local_experts=8, num_experts_per_tok=2)),
}


def saved(model, folder):
  """Saves a model with a tokenizer of bytes."""
  from tokenizers import Tokenizer, decoders, models, pre_tokenizers

  alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
  bytes_alone = Tokenizer(models.BPE(
      vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
  bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  bytes_alone.decoder = decoders.ByteLevel()
  tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=bytes_alone)
  tokenizer.chat_template = (
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
  model.to(torch.bfloat16).save_pretrained(folder)
  tokenizer.save_pretrained(folder)
  return folder


@pytest.fixture(scope="module", autouse=True)
def one_thread():
  """Uses one thread, since more threads would slow tiny models down."""
  torch.set_num_threads(1)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
  torch.manual_seed(1)
  model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
  return saved(model, tmp_path_factory.mktemp("llama") / "m")


def loaded(folder):
  return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)


def ids(count, rows=1, length=24, seed=5):
  chance = torch.Generator().manual_seed(seed)
  return [torch.randint(256, (rows, length), generator=chance) for _ in range(count)]


def calibrated(model, batches, **options):
  return quantd.calibrate(model, batches, quantctl=QUANTCTL, **options)


def largest(known, name, x):
  if x.numel():
    known[name] = max(known.get(name, 0.0), float(x.float().abs().max()))


def hooked(model, batches):
  """Returns the largest input of every Linear, and the KV cache of a plain run."""
  inputs, cached = {}, {}
  handles = [
      module.register_forward_pre_hook(
          lambda module, args, name=name: largest(inputs, name, args[0]))
      for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
  with torch.no_grad():
    for batch in batches:
      cache = model(batch, use_cache=True).past_key_values
      for i, layer in enumerate(cache.layers):
        largest(cached, f"{i}k", layer.keys)
        largest(cached, f"{i}v", layer.values)
  for handle in handles:
    handle.remove()
  return inputs, cached


@pytest.fixture
def run(capsys):
  """Runs the command in this process, because importing torch takes long."""
  def function(*words):
    code, said = 0, ""
    try:
      main(["--quantctl", QUANTCTL, *map(str, words)])
    except SystemExit as end:
      code, said = (end.code, "") if isinstance(end.code, int) else (1, end.code)
    out, err = capsys.readouterr()
    return subprocess.CompletedProcess(words, code, out, err + said)

  return function


def test_amaxes_equal_those_of_plain_hooks(llama):
  model, batches = loaded(llama), ids(3, rows=2)
  inputs, cached = hooked(model, batches)
  inputs.pop("lm_head")
  told = []
  found = calibrated(llama, batches, progress=lambda *at: told.append(at))
  assert found.input_amax == inputs and len(inputs) == 14
  assert found.kv_amax == {
      f"model.layers.{i}.self_attn": {"k": cached[f"{i}k"], "v": cached[f"{i}v"]}
      for i in (0, 1)}
  assert not found.unmeasured and not found.filled and told == [(1, 3), (2, 3), (3, 3)]
  assert [(d["sequences"], d["tokens"]) for d in found.data] == [(6, 144)]
  # A loaded module and batches as mappings give the same amaxes.
  again = calibrated(model.train(), [{"input_ids": b} for b in batches])
  assert again == found and model.training
  assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())
  # A head that `include` selects is measured over all tokens.
  head = calibrated(llama, batches, include=["lm_head"])
  assert head.input_amax["lm_head"] == hooked(model.eval(), batches)[0]["lm_head"]


class Wrapped(torch.nn.Module):
  """Adds a prefix to a model's names, as towers and adapters do."""

  def __init__(self, model):
    super().__init__()
    self.inner = model

  def forward(self, input_ids, use_cache=None):
    return self.inner(input_ids, use_cache=use_cache)


def test_names_are_those_of_the_checkpoint(llama):
  batches = ids(2)
  found = calibrated(Wrapped(loaded(llama)), batches, source=llama)
  assert found == calibrated(llama, batches)


def arithmetic(model, batches):
  """Computes each expert's largest inputs from the inputs of the stack."""
  found = {}

  def hook(module, args, name=None):
    x, chosen = args[0], args[1]
    for e in range(module.num_experts):
      rows = x[(chosen == e).any(-1)]
      gate, up = torch.nn.functional.linear(rows, module.gate_up_proj[e]).chunk(2, -1)
      largest(found, (name, e, "in"), rows)
      largest(found, (name, e, "down"), module.act_fn(gate) * up)

  handles = [m.register_forward_pre_hook(lambda m, a, n=int(n.split(".")[2]): hook(m, a, n))
             for n, m in model.named_modules() if n.endswith(".experts")]
  model.set_experts_implementation("eager")
  with torch.no_grad():
    for batch in batches:
      model(batch)
  for handle in handles:
    handle.remove()
  return found


@pytest.mark.parametrize("kind", EXPERTS)
def test_experts_are_measured_one_by_one(kind, tmp_path):
  torch.manual_seed(2)
  folder = saved(EXPERTS[kind](), tmp_path / "m")
  batches = ids(1, length=3)
  expected = arithmetic(loaded(folder), batches)
  with pytest.warns(UserWarning, match="experts saw no token"):
    found = calibrated(folder, batches)
  assert not found.unmeasured and found.filled
  measured = 0
  for name, amax in found.input_amax.items():
    if ".experts." not in name:
      continue
    layer, e, leaf = int(name.split(".")[2]), int(name.split(".")[-2]), name.split(".")[-1]
    which = "down" if leaf in ("down_proj", "w2") else "in"
    own = expected.get((layer, e, which))
    if own is None:
      assert name in found.filled
      own = max(v for (i, _, w), v in expected.items() if (i, w) == (layer, which))
    measured += name not in found.filled
    assert amax == own, name
  assert measured == 3 * len(expected) // 2 and measured + len(found.filled) == 48
  # Merging takes the amaxes of experts that saw no token in one part of the
  # data from another part.
  more = ids(4, length=64, seed=9)
  assert not calibrated(folder, more).filled
  whole = calibrated(folder, batches + more)
  assert merge([found, calibrated(folder, more)]).input_amax == whole.input_amax


def test_weights_may_lie_elsewhere_until_they_are_used(tmp_path):
  accelerate = pytest.importorskip("accelerate", reason="NO ACCELERATE")
  torch.manual_seed(3)
  folder = saved(EXPERTS["mixtral"](), tmp_path / "m")
  batches = ids(4, length=64)
  model = loaded(folder)
  accelerate.cpu_offload(model, torch.device("cpu"))
  assert next(model.parameters()).device.type == "meta"
  assert calibrated(model, batches) == calibrated(folder, batches)


def test_a_percentile_is_within_a_bin():
  x = np.random.default_rng(3).standard_t(3, 100_000).astype(np.float32)
  meter = Meter(histogram=True)
  for piece in np.array_split(x, 7):
    meter.add(torch.tensor(piece))
  for percent in (50, 99, 99.9):
    true = np.quantile(np.abs(x), percent / 100, method="inverted_cdf")
    assert true <= meter.percentile(percent) <= true * (1 + 1 / 16)
  assert meter.percentile(100) == meter.largest() == np.abs(x).max()


def test_percentiles_become_input_scales(llama):
  found = calibrated(llama, ids(2), percentile=90)
  most = calibrated(llama, ids(2))
  assert found.method == "percentile 90"
  assert all(0 < v < most.input_amax[n] for n, v in found.input_amax.items())


def scales(folder):
  """Returns input scales by the names of their tensors."""
  data = (folder / "model.safetensors").read_bytes()
  size = int.from_bytes(data[:8], "little")
  return {
      name: struct.unpack_from("<f", data, 8 + size + t["data_offsets"][0])[0]
      for name, t in json.loads(data[8:8 + size]).items()
      if name.endswith((".input_scale", ".input_global_scale"))}


FUSED = [("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"), ("w1", "w3")]


@pytest.mark.parametrize("kind", ["llama", *EXPERTS])
def test_from_bf16_to_4_bits_in_two_commands(kind, llama, run, tmp_path):
  torch.manual_seed(6)
  folder = llama if kind == "llama" else saved(EXPERTS[kind](), tmp_path / "m")
  file = tmp_path / "amax.json"
  words = [folder, "--tokens", 512, "--length", 128, "--out", file]
  if kind == "llama":
    done = subprocess.run(
        [sys.executable, "-m", "quantd", "calibrate", "--quantctl", QUANTCTL,
         *map(str, words)], capture_output=True, text=True)
  else:
    done = run(*words)
  assert done.returncode == 0 and "NO DATA: measuring on pages of Python's help" in done.stderr, done
  amaxes = quantd.Calibration.load(file).input_amax
  shared = {}
  for name, amax in amaxes.items():
    parent, _, leaf = name.rpartition(".")
    siblings = next((f for f in FUSED if leaf in f), (leaf,))
    shared[name] = max(amaxes[f"{parent}.{s}"] for s in siblings)
  f32 = np.float32
  for dialect, form, suffix, formula in (
      ("compressed-tensors", "nvfp4", "input_global_scale", lambda a: f32(2688) / f32(a)),
      ("compressed-tensors", "fp8", "input_scale", lambda a: f32(a) / f32(448)),
      ("modelopt", "nvfp4", "input_scale",
       lambda a: f32(1) / (f32(2688) / f32(a))),
      ("modelopt", "fp8", "input_scale", lambda a: f32(a) / f32(448))):
    out = tmp_path / f"{dialect}-{form}"
    quantd.convert(folder, out, dialect=dialect, format=form, input_amax=file,
                   server="local", quantctl=QUANTCTL)
    made = scales(out)
    assert made.keys() == {f"{name}.{suffix}" for name in amaxes}
    for name, amax in shared.items():
      assert made[f"{name}.{suffix}"] == pytest.approx(formula(amax), rel=2e-7), name
    lint = subprocess.run([QUANTCTL, "lint", out, "--original", folder, "--json"],
                          capture_output=True, text=True)
    assert lint.returncode == 0 and not json.loads(lint.stdout)["findings"], lint.stdout


@pytest.mark.parametrize("dialect", ["compressed-tensors", "modelopt"])
def test_weights_without_an_amax_keep_plain_activations(llama, tmp_path, dialect):
  """Siblings share the amax that one of them has, and lint finds nothing."""
  found = calibrated(llama, ids(1))
  for layer in (0, 1):
    del found.input_amax[f"model.layers.{layer}.mlp.down_proj"]
    del found.input_amax[f"model.layers.{layer}.self_attn.v_proj"]
  found.save(tmp_path / "amax.json")
  out = tmp_path / "out"
  made = quantd.convert(llama, out, dialect=dialect, input_amax=tmp_path / "amax.json",
                        server="local", quantctl=QUANTCTL)
  note = next(n for n in made.plan["notes"] if "--input-amax does not have" in n)
  assert "layers.1.mlp.down_proj" in note and "v_proj" not in note
  assert made.plan["activations"].endswith("for 12 of 14 weights")
  have = {name.rpartition(".")[0] for name in scales(out)}
  assert len(have) == 12 and not any("down_proj" in name for name in have)
  lint = subprocess.run([QUANTCTL, "lint", out, "--original", llama, "--json"],
                        capture_output=True, text=True)
  assert lint.returncode == 0 and not json.loads(lint.stdout)["findings"], lint.stdout


def test_the_same_arguments_make_the_same_file(llama, run, tmp_path):
  data = tmp_path / "d.jsonl"
  lines = [{"text": f"line {i} {'x' * (i % 7)}"} for i in range(40)]
  lines[3] = {"messages": [{"role": "user", "content": "hello"}]}
  data.write_text("".join(json.dumps(line) + "\n" for line in lines))
  words = (llama, "--data", data, "--samples", 5, "--length", 16, "--out")
  made = {}
  for name, seed in (("a", 0), ("b", 0), ("c", 1)):
    done = run(*words, tmp_path / name, "--seed", seed)
    assert done.returncode == 0, done.stderr
    made[name] = (tmp_path / name).read_bytes()
  assert made["a"] == made["b"] != made["c"]
  assert json.loads(made["a"])["data"][0]["sequences"] == 5
  done = run("--merge", tmp_path / "a", tmp_path / "c", "--out", tmp_path / "whole")
  assert done.returncode == 0 and "wrote" in done.stdout
  whole, a, c = (quantd.Calibration.load(tmp_path / n) for n in ("whole", "a", "c"))
  assert all(v == max(a.input_amax[n], c.input_amax[n]) for n, v in whole.input_amax.items())
  assert a.input_amax != whole.input_amax or c.input_amax != whole.input_amax


def test_chats_use_the_template(llama, run, tmp_path):
  for name, line in (("chat", {"messages": [{"role": "user", "content": "hello"}]}),
                     ("text", {"text": "<user>hello"}), ("plain", "<user>hello")):
    (tmp_path / f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    done = run(llama, "--data", tmp_path / f"{name}.jsonl", "--out", tmp_path / name)
    assert done.returncode == 0, done.stderr
  hashes = {quantd.Calibration.load(tmp_path / n).data[0]["sha256"]
            for n in ("chat", "text", "plain")}
  assert len(hashes) == 1


@pytest.mark.parametrize("name, text, said", [
    ("d.jsonl", '{"text": "a"}\n{"body": "b"}\n', "d.jsonl:2: expected a JSON string, "),
    ("d.jsonl", "{\n", "d.jsonl:1: expected a JSON string, "),
    ("d.csv", "a,b\n", "a file .jsonl"),
    ("d.txt", "\n", "samples with text"),
])
def test_invalid_data_is_refused(llama, run, tmp_path, name, text, said):
  (tmp_path / name).write_text(text)
  done = run(llama, "--data", tmp_path / name, "--out", tmp_path / "amax.json")
  assert done.returncode == 1 and said in done.stderr, done.stderr
  assert not (tmp_path / "amax.json").exists()


def test_setups_that_would_measure_wrongly_are_refused(llama, run, tmp_path, monkeypatch):
  mask = torch.ones(1, 24, dtype=torch.long)
  mask[0, -1] = 0
  with pytest.raises(quantd.Invalid, match="without padding"):
    calibrated(llama, [{"input_ids": ids(1)[0], "attention_mask": mask}])
  model = loaded(llama)
  with torch.no_grad():
    model.model.layers[1].mlp.up_proj.weight[0, 0] = float("inf")
  with pytest.raises(quantd.Invalid, match=r"layers\.1\.mlp\.down_proj"):
    calibrated(model, ids(1))
  with pytest.raises(quantd.Invalid, match="source"):
    calibrated(torch.nn.Linear(4, 4), [])
  monkeypatch.setenv("PATH", str(tmp_path))
  with pytest.raises(quantd.Unimplemented, match="quantctl=PATH"):
    quantd.calibrate(llama, ids(1))
  for words in ((), (llama,), (llama, "--merge", "a")):
    assert run(*words, "--out", tmp_path / "a").returncode == 2


def test_memory_does_not_grow_with_the_data(llama):
  """Ten times the batches leave no more tensors alive."""
  import gc

  def held(count):
    alive = []

    def tell(done, of):
      if done == of:
        gc.collect()
        alive.extend(1 for o in gc.get_objects() if type(o) is torch.Tensor)

    calibrated(model, ids(count), percentile=99, progress=tell)
    return len(alive) - count  # the caller's batches

  model = loaded(llama)
  assert held(20) <= held(2)
