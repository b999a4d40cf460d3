"""The largest inputs of a model's modules, measured: `quantd.calibrate`."""

import hashlib
import inspect
import math
import os
import pathlib
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quantd.calibration_file import Calibration
from quantd.calibration_hooks import Meter, Watch
from quantd.calls import progress as telling
from quantd.conversion import convert
from quantd.errors import Invalid, Unimplemented

__all__ = ["calibrate"]

Path = str | os.PathLike[str]
# Bytes at both ends of a shard that its hash covers.
_ENDS = 1 << 20


def calibrate(
  model: Any,
  batches: Iterable[Any],
  *,
  source: Path | None = None,
  include: Sequence[str] = (),
  percentile: float | None = None,
  data: str = "batches",
  progress: telling.Wanted = False,
  device_map: Any = None,
  quantctl: Path | None = None,
) -> Calibration:
  """Runs a model once over batches and measures what comes into its modules.

  The modules are those that `quantctl convert` takes, which is asked with a dry
  run. Nothing grows with the batches.

  Args:
    model: A model's directory, which transformers loads in bf16, or a module of
      PyTorch that is loaded already.
    batches: Token ids [B, T], or mappings that the model takes as keywords.
      Every position counts, so they must hold no padding.
    source: The model's directory, where a module does not know its own.
    include: Patterns of `quantctl convert --include`.
    percentile: None measures the largest magnitude. A number like 99.9 is the
      magnitude below which so much of each input lies, at most 1/16 too large.
    data: A name of the data, for the file.
    progress: As `quantd.convert` has it, of batches.
    device_map: As `from_pretrained` has it; None: one GPU if there is one.
    quantctl: As `quantd.convert` has it.

  Returns:
    What was found; `save` writes the file for `--input-amax`.

  Raises:
    quantd.Invalid: The model is none that convert takes, the batches have
      padding, or what comes into a module is not finite.
    quantd.Unimplemented: There is no quantctl, or no torch or transformers.
  """
  torch = _torch()
  if percentile is not None and not 0 < percentile <= 100:
    raise Invalid.of("percentile", "a number in (0, 100]", str(percentile))
  if isinstance(model, (str, os.PathLike)):
    source = model
    model = _load(source, device_map)
  folder = pathlib.Path(source or getattr(model, "name_or_path", "") or "-")
  if not folder.is_dir():
    expected = "the model's directory, which tells what convert takes"
    raise Invalid.of("source", expected, str(folder))
  wanted = _modules_of(folder, include, quantctl)
  watch = Watch(model, wanted, percentile is not None)
  words = _keywords(model, watch)
  run = {"name": data, "sequences": 0, "tokens": 0}
  digest = hashlib.sha256()
  total = len(batches) if isinstance(batches, Sequence) else 0
  tell, close = telling.function_of(progress, total, "calibrate", unit="batch")
  training = model.training
  model.eval()
  try:
    with torch.inference_mode(), watch.open():
      for done, batch in enumerate(batches, 1):
        _count(batch, run, digest, torch.uint8)
        _forward(model, batch, words)
        if tell is not None:
          tell(done, max(total, done))
  finally:
    model.train(training)
    close()
  out = Calibration(data=[{**run, "sha256": digest.hexdigest()}])
  out.model = {"name": folder.resolve().name, "sha256": _hash_of(folder)}
  _read(watch, percentile, out)
  out.fill()
  if out.filled:
    warnings.warn(
      f"{len(out.filled)} weights of experts saw no token and have the largest of their "
      f"siblings, {out.filled[0]} for one: take more data",
      stacklevel=2,
    )
  return out


def _load(source: Path, device_map: Any = None) -> Any:
  """Loads a model as its config.json names its class, in bf16.

  No code of the model's own is run; a model that needs such is loaded by the
  caller.
  """
  torch = _torch()
  import transformers

  config = transformers.AutoConfig.from_pretrained(os.fspath(source))
  kind = transformers.AutoModelForCausalLM
  for name in config.architectures or []:
    kind = getattr(transformers, name, kind)
  model = kind.from_pretrained(
    os.fspath(source), dtype=torch.bfloat16, device_map=device_map
  )
  if device_map is None and torch.cuda.is_available():
    model = model.cuda()
  return model


def _torch() -> Any:
  try:
    import torch
    import transformers  # noqa: F401
  except ImportError as missing:
    raise Unimplemented(
      f"calibrate() runs the model with PyTorch and transformers ({missing}): "
      "pip install 'quantd[calibrate]'"
    ) from missing
  return torch


def _modules_of(
  source: pathlib.Path, include: Sequence[str], quantctl: Path | None
) -> dict[str, tuple[int, int]]:
  """Rows and columns of the weights that convert takes, by their modules.

  No format takes more of them than this one, so that the file serves all.
  """
  with tempfile.TemporaryDirectory() as folder:
    plan = convert(
      source,
      pathlib.Path(folder) / "out",
      dry_run=True,
      format="fp8_dynamic",
      include=list(include),
      quantctl=quantctl,
    ).plan
  return {w["module"]: tuple(w["shape"]) for g in plan["groups"] for w in g}


def _keywords(model: Any, watch: Watch) -> dict[str, Any]:
  """What makes the model keep a cache, and no logits that nobody reads."""
  known = inspect.signature(model.forward).parameters
  words: dict[str, Any] = {"use_cache": True, "logits_to_keep": 1}
  # A head that is measured sees all tokens.
  if watch.measures(getattr(model, "get_output_embeddings", lambda: None)()):
    del words["logits_to_keep"]
  return {word: value for word, value in words.items() if word in known}


def _forward(model: Any, batch: Any, words: Mapping[str, Any]) -> None:
  # Weights that accelerate holds elsewhere are on no device until they are used.
  devices = (p.device for p in model.parameters() if p.device.type != "meta")
  device = next(devices, "cpu")
  if isinstance(batch, Mapping):
    moved = {
      k: v.to(device) if hasattr(v, "to") else v for k, v in batch.items()
    }
    mask = moved.get("attention_mask")
    if mask is not None and not bool((mask != 0).all()):
      expected = "batches without padding, which would be measured, too"
      raise Invalid.of("attention_mask", expected, "zeros in it")
    model(**{**words, **moved})
  else:
    model(batch.to(device), **words)


def _count(batch: Any, run: dict[str, Any], found: Any, byte: Any) -> None:
  """Adds a batch to what was run, and to its hash."""
  parts = batch if isinstance(batch, Mapping) else {"input_ids": batch}
  ids = parts.get("input_ids", next(iter(parts.values())))
  run["sequences"] += ids.shape[0]
  run["tokens"] += ids.shape[:2].numel()
  for name, part in sorted(parts.items()):
    if hasattr(part, "cpu"):
      found.update(f"{name} {tuple(part.shape)} {part.dtype}\n".encode())
      # Bytes, for numpy has no bf16.
      part = part.detach().cpu().reshape(-1).contiguous()
      found.update(part.view(byte).numpy())


def _read(watch: Watch, percentile: float | None, out: Calibration) -> None:
  """Takes the meters' numbers."""
  out.unmeasured = dict(watch.absent)
  if percentile is not None:
    out.method = f"percentile {percentile:g}"
  for name, meter in watch.inputs.items():
    largest = _finite(name, meter)
    if largest == 0:
      out.unmeasured[name] = "nothing but zeros, or nothing, came into it"
    elif percentile is None:
      out.input_amax[name] = largest
    else:
      out.input_amax[name] = meter.percentile(percentile)
  for name, (keys, values) in watch.kv.items():
    pair = {"k": _finite(name, keys), "v": _finite(name, values)}
    if min(pair.values()) > 0:
      out.kv_amax[name] = pair
    else:
      out.unmeasured[name] = "it gave no cache keys and values"


def _finite(name: str, meter: Meter) -> float:
  largest = meter.largest()
  if not math.isfinite(largest):
    raise Invalid.of(name, "finite numbers that come into it", str(largest))
  return largest


def _hash_of(source: pathlib.Path) -> str:
  """Of config.json and, of every shard, its name, its size and both ends.

  Whole shards would take as long as the run; another training changes the ends.
  """
  found = hashlib.sha256()
  config = source / "config.json"
  found.update(config.read_bytes() if config.exists() else b"")
  for shard in sorted(source.glob("*.safetensors")):
    size = shard.stat().st_size
    found.update(f"{shard.name} {size}\n".encode())
    with shard.open("rb") as file:
      found.update(file.read(_ENDS))
      file.seek(max(0, size - _ENDS))
      found.update(file.read())
  return found.hexdigest()
