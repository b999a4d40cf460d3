"""Measures what a quantized model loses: `quantd.evaluate`."""

import json
import math
import os
import pathlib
import tempfile
from collections.abc import Iterable, Mapping
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

  Attributes:
    tokens: Number of tokens.
    perplexity: The perplexities of A and of B.
    kl: The mean KL divergence of B's next token from A's, in nats.
    top1: The share of positions where both models predict the same token.
    modules: The relative error of each module whose weights differ. Both
      modules get the input of A's module.
    notes: Differences from what an engine computes.
  """

  tokens: int = 0
  perplexity: tuple[float, float] = (math.nan, math.nan)
  kl: float = math.nan
  top1: float = math.nan
  modules: dict[str, float] = field(default_factory=dict)
  notes: list[str] = field(default_factory=list)

  def table(self) -> str:
    """Returns a line for each layer: the mean error and the worst module."""
    a, b = self.perplexity
    whole = (
      f"perplexity {a:.5g} and {b:.5g} ({b / a - 1:+.2%}), KL {self.kl:.4g} "
      f"nats, the same prediction for {self.top1:.2%} of {self.tokens} tokens"
    )
    layers: dict[str, dict[str, float]] = {}
    for name, error in self.modules.items():
      layer, rest = numbered(name)
      layers.setdefault(layer, {})[rest or name] = error
    lines = [whole]
    if layers:
      lines.append(f"{'layer':<32}{'error':>8}  worst module")
    for layer, errors in layers.items():
      mean = math.sqrt(sum(e * e for e in errors.values()) / len(errors))
      worst = max(errors, key=lambda name: errors[name])
      lines.append(f"{layer:<32}{mean:>8.2%}  {worst} {errors[worst]:.2%}")
    return "\n".join(lines + [f"note: {note}" for note in self.notes])


def evaluate(
  a: Path,
  b: Path,
  batches: Iterable[Any],
  *,
  connection: Connection | None = None,
  device_map: Any = None,
  quantctl: Path | None = None,
) -> Evaluation:
  """Runs two models on the same tokens and compares them.

  A quantized model is decoded to bf16 first. If its files have scales of
  activations (NVFP4 W4A4, static FP8), the inputs of these modules are quantized
  and decoded, as engines do. Both models are in memory at once.

  Args:
    a: The original model's directory.
    b: The quantized model's directory.
    batches: Token ids [B, T] without padding.
    connection: Quantizes activations; None: `quantd.connect()`.
    device_map: As for `from_pretrained`. None uses one GPU if there is one.
    quantctl: As for `quantd.convert`.

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
    sums = _watch(first, second)
    total = {"a": 0.0, "b": 0.0, "kl": 0.0, "same": 0.0}
    predicted = 0
    for batch in batches:
      ids = batch.to(first.device)
      words = {"use_cache": False}
      logits = first(ids, **words).logits, second(ids, **words).logits
      _count(ids, *logits, total)
      out.tokens += ids.numel()
      predicted += ids.numel() - ids.shape[0]
  if predicted == 0:
    raise Invalid.of("batches", "rows of at least two tokens", "none")
  out.perplexity = (
    math.exp(total["a"] / predicted),
    math.exp(total["b"] / predicted),
  )
  out.kl = total["kl"] / out.tokens
  out.top1 = total["same"] / out.tokens
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
  """Loads a decoded model whose activations are quantized as in its files."""
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
  for name, (format, amax) in _inputs_of(source).items():
    module = names.linear(name)
    if module is None:
      missing.append(name)
    else:
      connection = connection or connect()
      module.register_forward_pre_hook(_rounding(connection, format, amax))
  if missing:
    out.notes.append(
      f"the inputs of {len(missing)} modules of {source.name} are not quantized, "
      f"because transformers has no such modules, for example {missing[0]}"
    )
  if _finds_scales_at_run_time(said):
    out.notes.append(
      f"activations with scales computed at run time are not quantized: "
      f"{source.name}"
    )
  if said.get("kv_cache_scheme"):
    out.notes.append(f"keys and values are not quantized: {source.name}")
  return model


def _inputs_of(source: pathlib.Path) -> dict[str, tuple[str, float]]:
  """Returns format and largest input of the modules with an input scale."""
  import safetensors

  scales: dict[str, float] = {}
  names: set[str] = set()
  for shard in sorted(source.glob("*.safetensors")):
    with safetensors.safe_open(shard, "pt") as file:
      found_here = file.keys()
      names |= set(found_here)
      for name in found_here:
        if name.endswith((".input_scale", ".input_global_scale")):
          scales[name] = float(file.get_tensor(name).max())
  found = {}
  for name, scale in scales.items():
    module, leaf = name.rsplit(".", 1)
    if leaf == "input_global_scale":
      found[module] = ("nvfp4", 2688 / scale)
    elif f"{module}.weight_scale_2" in names:
      found[module] = ("nvfp4", 2688 * scale)
    else:
      found[module] = ("fp8_e4m3", 448 * scale)
  return found


def _finds_scales_at_run_time(said: Mapping[str, Any]) -> bool:
  groups = said.get("config_groups", {}).values()
  inputs = [group.get("input_activations") or {} for group in groups]
  return (
    any(i.get("dynamic") is True for i in inputs)
    or said.get("activation_scheme") == "dynamic"
    or said.get("quant_algo") == "MXFP8"
  )


def _rounding(connection: Connection, format: Any, amax: float) -> Any:
  """Returns a hook that quantizes and decodes the input of a module."""

  def hook(module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    x = args[0]
    rows = x.reshape(-1, x.shape[-1]).cpu().contiguous()
    t = connection.quantize(rows, format, given_amax=amax)
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


def _count(ids: Any, a: Any, b: Any, total: dict[str, float]) -> None:
  """Adds a batch's losses, divergences and agreements."""
  for start in range(0, ids.shape[1], _POSITIONS):
    part = slice(start, start + _POSITIONS)
    p = a[:, part].float().log_softmax(-1)
    q = b[:, part].float().log_softmax(-1)
    total["kl"] += float((p.exp() * (p - q)).sum())
    total["same"] += float((p.argmax(-1) == q.argmax(-1)).sum())
    following = ids[:, start + 1 : start + 1 + _POSITIONS, None]
    rows = following.shape[1]
    total["a"] -= float(p[:, :rows].gather(-1, following).sum())
    total["b"] -= float(q[:, :rows].gather(-1, following).sum())
