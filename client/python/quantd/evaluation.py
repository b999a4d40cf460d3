"""Measures what a quantized model loses: `quantd.evaluate`."""

import inspect
import json
import math
import os
import pathlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quantd.calibration import load_model
from quantd.calibration_hooks import Names, numbered, stacked
from quantd.calls.connecting import connect
from quantd.calls.connection import Connection
from quantd.conversion import convert
from quantd.errors import Invalid

__all__ = ["Evaluation", "evaluate"]

Path = str | os.PathLike[str]
# Positions whose probabilities are in memory at once.
_POSITIONS = 256


@dataclass
class Evaluation:
  """The difference of the models A and B on the same tokens.

  A measure that models of this kind do not have is None.

  Attributes:
    tokens: Number of tokens.
    perplexity: The perplexities of A and of B.
    loss: The mean of B's loss minus A's for each token, in nats.
    kl: The mean KL divergence of B's next token from A's, in nats.
    top1: The share of positions where both models predict the same token.
    cosine: For models that predict no tokens: the mean cosine between A's and
      B's embeddings of a row, which are the means of its last hidden states.
    errors: The standard errors of loss, kl, top1 and cosine, taken over rows,
      because the tokens of a row depend on each other. With one row, empty.
    rows: For each row, the sums of these measures over its tokens, and of the
      losses "a" and "b". Evaluations of the same rows can be compared by row.
    modules: The relative output error of each module whose weights differ or
      whose input is quantized. Both modules get the input of A's module.
    notes: Differences from what an engine computes.
  """

  tokens: int = 0
  perplexity: tuple[float, float] | None = None
  loss: float | None = None
  kl: float | None = None
  top1: float | None = None
  cosine: float | None = None
  errors: dict[str, float] = field(default_factory=dict)
  rows: dict[str, list[float]] = field(default_factory=dict)
  modules: dict[str, float] = field(default_factory=dict)
  notes: list[str] = field(default_factory=list)

  def table(self) -> str:
    """Returns the totals, and for each layer its RMS error and worst module."""
    layers: dict[str, dict[str, float]] = {}
    for name, error in self.modules.items():
      layer, rest = numbered(name)
      layers.setdefault(layer, {})[rest or name] = error
    lines = [self._whole()]
    if layers:
      lines.append(f"{'layer':<32}{'error':>8}  worst module")
    for layer, errors in layers.items():
      mean = math.sqrt(sum(e * e for e in errors.values()) / len(errors))
      worst = max(errors, key=lambda name: errors[name])
      lines.append(f"{layer:<32}{mean:>8.2%}  {worst} {errors[worst]:.2%}")
    return "\n".join(lines + [f"note: {note}" for note in self.notes])

  def _whole(self) -> str:
    spread = {name: f" ± {error:.2g}" for name, error in self.errors.items()}
    if self.perplexity is None:
      return (
        f"cosine of embeddings {self.cosine:.6g}{spread.get('cosine', '')}, "
        f"{self.tokens} tokens"
      )
    a, b = self.perplexity
    return (
      f"perplexity {a:.5g} and {b:.5g}, loss {self.loss:+.4g}"
      f"{spread.get('loss', '')} nats, KL {self.kl:.4g}{spread.get('kl', '')} "
      f"nats, the same prediction for {self.top1:.2%} of {self.tokens} tokens"
    )


def evaluate(
  a: Path,
  b: Path,
  batches: Iterable[Any],
  *,
  connection: Connection | None = None,
  device_map: Any = None,
  quantctl: Path | None = None,
  by_module: bool = True,
) -> Evaluation:
  """Runs two models on the same tokens and compares them.

  A quantized model is decoded to bf16 first. Where engines quantize the input
  of a module, it is quantized and decoded here, too, with the scale in the
  files or one computed at run time. Both models are in memory at once.

  Args:
    a: The original model's directory.
    b: The quantized model's directory.
    batches: Token ids [B, T] without padding.
    connection: Quantizes activations. None uses `quantd.connect()`.
    device_map: As for `from_pretrained`. None uses one GPU if there is one.
    quantctl: As for `quantd.convert`.
    by_module: Measure single modules, too, which takes half of the whole time.

  Returns:
    The measurements. `table` returns them as text.

  Raises:
    quantd.Invalid: A directory has no model, or there are no tokens.
    quantd.Unimplemented: quantctl, torch or transformers is missing.
  """
  import torch

  out = Evaluation()
  with torch.inference_mode():
    first = _open(a, connection, device_map, quantctl, out)
    second = _open(b, connection, device_map, quantctl, out)
    sums = _watch(first, second) if by_module else {}
    for batch in batches:
      ids = batch.to(first.device)
      words = _words(first)
      _count(ids, first(ids, **words), second(ids, **words), out.rows)
      out.tokens += ids.numel()
  _summarize(out)
  out.modules = {
    name: math.sqrt(float(error) / float(size))
    for name, (error, size) in sums.items()
    if float(size) > 0
  }
  return out


def _open(
  source: Path,
  connection: Connection | None,
  device_map: Any,
  quantctl: Path | None,
  out: Evaluation,
) -> Any:
  """Loads a model, decoded, with hooks that quantize its activations."""
  source = pathlib.Path(source)
  if not (source / "config.json").is_file():
    raise Invalid.of("model", "a directory with a config.json", str(source))
  config = json.loads((source / "config.json").read_text("utf-8"))
  said = config.get("quantization_config")
  if not said:
    return load_model(source, device_map).eval()
  with tempfile.TemporaryDirectory() as folder:
    plain = pathlib.Path(folder) / "plain"
    convert(source, plain, dialect="none", format="bf16", quantctl=quantctl)
    model = load_model(plain, device_map).eval()
  names = Names(model)
  missing = []
  for name, words in _inputs_of(source, said).items():
    module = names.linear(name)
    if module is None:
      missing.append(name)
    else:
      connection = connection or connect()
      module.register_forward_pre_hook(_rounding(connection, words))
  if missing:
    out.notes.append(
      f"the inputs of {len(missing)} modules of {source.name} are not quantized, "
      f"because transformers has no modules with their names: {missing[0]}, ..."
    )
  if said.get("kv_cache_scheme"):
    out.notes.append(f"keys and values are not quantized: {source.name}")
  return model


def _inputs_of(
  source: pathlib.Path, said: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
  """Returns the arguments of `quantize` for a module's input, by module."""
  import safetensors

  scales: dict[str, float] = {}
  forms: dict[str, tuple[str, list[int]]] = {}
  for shard in sorted(source.glob("*.safetensors")):
    with safetensors.safe_open(shard, "pt") as file:
      for name in file.keys():  # noqa: SIM118
        part = file.get_slice(name)
        forms[name] = (part.get_dtype(), part.get_shape())
        if name.endswith((".input_scale", ".input_global_scale")):
          scales[name] = float(file.get_tensor(name).max())
  found: dict[str, dict[str, Any]] = {}
  if _finds_scales_at_run_time(said):
    for name, (kind, shape) in forms.items():
      module, _, leaf = name.rpartition(".")
      weight = forms.get(f"{module}.weight", ("", []))
      if leaf in ("weight_scale", "weight_scale_inv") and weight[0] == "F8_E4M3":
        found[module] = _scaled_at_run_time(kind, shape, weight[1])
  for name, scale in scales.items():
    module, leaf = name.rsplit(".", 1)
    if leaf == "input_global_scale":
      found[module] = {"format": "nvfp4", "given_amax": 2688 / scale}
    elif f"{module}.weight_scale_2" in forms:
      found[module] = {"format": "nvfp4", "given_amax": 2688 * scale}
    else:
      found[module] = {"format": "fp8_e4m3", "given_amax": 448 * scale}
  return found


def _scaled_at_run_time(
  kind: str, scales: list[int], weight: list[int]
) -> dict[str, Any]:
  """Returns how engines quantize an input, derived from the weight's scales."""
  if kind == "U8":
    return {"format": "mxfp8_e4m3"}
  if len(scales) == 2 and (scales[1] > 1 or scales[0] not in (1, weight[0])):
    return {"format": "fp8_block_e4m3", "power_of_two": False}
  return {"format": "fp8_channel_e4m3"}


def _finds_scales_at_run_time(said: Mapping[str, Any]) -> bool:
  groups = said.get("config_groups", {}).values()
  inputs = [group.get("input_activations") or {} for group in groups]
  return (
    any(i.get("dynamic") is True for i in inputs)
    or said.get("activation_scheme") == "dynamic"
    or said.get("quant_algo") == "MXFP8"
  )


def _rounding(connection: Connection, words: Mapping[str, Any]) -> Any:
  """Returns a hook that quantizes and decodes the input of a module."""

  def hook(module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    x = args[0]
    rows = x.reshape(-1, x.shape[-1]).cpu().contiguous()
    t = connection.quantize(rows, **words)
    return (t.dequantize().to(x).reshape(x.shape), *args[1:])

  return hook


def _watch(a: Any, b: Any) -> dict[str, tuple[Any, Any]]:
  """Adds hooks to A that sum squares of errors and outputs by module."""
  import torch

  sums: dict[str, tuple[Any, Any]] = {}
  others = dict(b.named_modules())

  def watch(name: str, module: Any, other: Any) -> None:
    def hook(_: Any, args: Any, words: Any, output: Any) -> None:
      theirs = other(*args, **words)
      if isinstance(output, tuple):
        output, theirs = output[0], theirs[0]
      error = (theirs - output).double().square().sum()
      size = output.double().square().sum()
      before = sums.get(name, (0.0, 0.0))
      sums[name] = (before[0] + error, before[1] + size)

    module.register_forward_hook(hook, with_kwargs=True)

  for name, module in a.named_modules():
    other = others.get(name)
    linear = isinstance(module, torch.nn.Linear) or stacked(module)
    if linear and other is not None:
      pairs = zip(module.parameters(), other.parameters(), strict=False)
      if other._forward_pre_hooks or not all(
        torch.equal(p, o) for p, o in pairs
      ):
        watch(name, module, other)
  return sums


def _words(model: Any) -> dict[str, Any]:
  """Returns arguments that skip the cache, if the model has one."""
  known = inspect.signature(model.forward).parameters
  return {"use_cache": False} if "use_cache" in known else {}


def _count(ids: Any, a: Any, b: Any, rows: dict[str, list[float]]) -> None:
  """Adds each row's sums of losses, KL and top-1 matches, or its cosine."""
  import torch

  def add(name: str, values: Any) -> None:
    rows.setdefault(name, []).extend(values.tolist())

  add("tokens", torch.full(ids.shape[:1], ids.shape[1]))
  if not hasattr(a, "logits"):
    one, other = (m.last_hidden_state.double().mean(1) for m in (a, b))
    add("cosine", torch.cosine_similarity(one, other))
    return
  sums = {name: torch.zeros(ids.shape[0]) for name in ("a", "b", "kl", "top1")}
  for start in range(0, ids.shape[1], _POSITIONS):
    part = slice(start, start + _POSITIONS)
    p = a.logits[:, part].float().log_softmax(-1)
    q = b.logits[:, part].float().log_softmax(-1)
    sums["kl"] += (p.exp() * (p - q)).sum((1, 2)).cpu()
    sums["top1"] += (p.argmax(-1) == q.argmax(-1)).sum(1).cpu()
    following = ids[:, start + 1 : start + 1 + _POSITIONS, None]
    size = following.shape[1]
    sums["a"] -= p[:, :size].gather(-1, following).sum((1, 2)).cpu()
    sums["b"] -= q[:, :size].gather(-1, following).sum((1, 2)).cpu()
  for name, values in sums.items():
    add(name, values)


def _summarize(out: Evaluation) -> None:
  """Computes means and their standard errors from the rows."""
  rows, tokens = out.rows, out.rows.get("tokens", [])
  if "cosine" in rows:
    out.cosine = _mean("cosine", rows["cosine"], [1] * len(tokens), out)
    return
  predicted = [size - 1 for size in tokens]
  if sum(predicted) == 0:
    raise Invalid.of("batches", "rows of at least two tokens", "none")
  a, b = rows["a"], rows["b"]
  out.perplexity = (
    math.exp(sum(a) / sum(predicted)),
    math.exp(sum(b) / sum(predicted)),
  )
  rows["loss"] = [after - before for before, after in zip(a, b, strict=True)]
  out.loss = _mean("loss", rows["loss"], predicted, out)
  out.kl = _mean("kl", rows["kl"], tokens, out)
  out.top1 = _mean("top1", rows["top1"], tokens, out)


def _mean(
  name: str, sums: Sequence[float], sizes: Sequence[float], out: Evaluation
) -> float:
  """Returns a mean over tokens, and sets its error, with rows as clusters."""
  count, total = len(sums), sum(sizes)
  mean = sum(sums) / total
  if count > 1:
    squares = sum((s - n * mean) ** 2 for s, n in zip(sums, sizes, strict=True))
    out.errors[name] = math.sqrt(squares * count / (count - 1)) / total
  return mean
