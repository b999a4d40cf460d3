"""`quantd.calibrate`: measures the largest inputs of a model's modules."""

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

__all__ = ["calibrate", "load_model"]

Path = str | os.PathLike[str]
# A shard's hash covers this many bytes at each end.
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
  """Runs a model once over batches and measures the inputs of its modules.

  The modules are those that `quantctl convert` quantizes: a dry run lists them.
  Memory does not grow with the number of batches.

  Args:
    model: The directory of a model, which transformers loads in bf16, or a
      PyTorch module that is already loaded.
    batches: Token ids [B, T], or mappings that the model accepts as keywords.
      They must not be padded, because every position is measured.
    source: The model's directory, if a loaded module does not name it.
    include: Patterns of `quantctl convert --include`.
    percentile: None measures the largest magnitude. 99.9 measures the magnitude
      that 99.9 % of each input's elements do not exceed. The result is at most
      1/16 too large.
    data: The name of the data to write into the file.
    progress: As for `quantd.convert`, counted in batches.
    device_map: As for `from_pretrained`. None uses a GPU if there is one.
    quantctl: As for `quantd.convert`.

  Returns:
    The measured values. `save` writes the file for `--input-amax`.

  Raises:
    quantd.Invalid: quantctl cannot convert the model, a batch has padding, or
      an input of a module is not finite.
    quantd.Unimplemented: quantctl, torch or transformers is missing.
  """
  torch = _torch()
  if percentile is not None and not 0 < percentile <= 100:
    raise Invalid.of("percentile", "a number in (0, 100]", str(percentile))
  if isinstance(model, (str, os.PathLike)):
    source = model
    model = load_model(source, device_map)
  folder = pathlib.Path(source or getattr(model, "name_or_path", "") or "-")
  if not folder.is_dir():
    expected = "the model's directory, from which quantctl lists the modules"
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
      f"{len(out.filled)} weights of experts saw no token, such as "
      f"{out.filled[0]}, and got the largest amax of their siblings: run more "
      "data",
      stacklevel=2,
    )
  return out


def load_model(source: Path, device_map: Any = None) -> Any:
  """Loads a model in bf16, with the class that its config.json names.

  Never runs code from the model's directory. The caller must load a model that
  needs such code.
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
  """Returns the modules that convert quantizes, with their weights' shapes.

  No format quantizes more weights than fp8_dynamic, so the calibration serves
  all formats.
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
  """Returns arguments to use a KV cache, which is measured, and skip logits."""
  known = inspect.signature(model.forward).parameters
  words: dict[str, Any] = {"use_cache": True, "logits_to_keep": 1}
  # If the output head is measured, it must see all tokens.
  if watch.measures(getattr(model, "get_output_embeddings", lambda: None)()):
    del words["logits_to_keep"]
  return {word: value for word, value in words.items() if word in known}


def _forward(model: Any, batch: Any, words: Mapping[str, Any]) -> None:
  # Weights that accelerate has offloaded are on the device "meta" until used.
  devices = (p.device for p in model.parameters() if p.device.type != "meta")
  device = next(devices, "cpu")
  if isinstance(batch, Mapping):
    moved = {
      k: v.to(device) if hasattr(v, "to") else v for k, v in batch.items()
    }
    mask = moved.get("attention_mask")
    if mask is not None and not bool((mask != 0).all()):
      expected = "batches without padding, because padding would be measured"
      raise Invalid.of("attention_mask", expected, "a mask with zeros")
    model(**{**words, **moved})
  else:
    model(batch.to(device), **words)


def _count(batch: Any, run: dict[str, Any], found: Any, byte: Any) -> None:
  """Adds a batch to the counts of the run and to the data's hash."""
  parts = batch if isinstance(batch, Mapping) else {"input_ids": batch}
  ids = parts.get("input_ids", next(iter(parts.values())))
  run["sequences"] += ids.shape[0]
  run["tokens"] += ids.shape[:2].numel()
  for name, part in sorted(parts.items()):
    if hasattr(part, "cpu"):
      found.update(f"{name} {tuple(part.shape)} {part.dtype}\n".encode())
      # Hashes bytes, because numpy has no bf16.
      part = part.detach().cpu().reshape(-1).contiguous()
      found.update(part.view(byte).numpy())


def _read(watch: Watch, percentile: float | None, out: Calibration) -> None:
  """Copies the meters' results into `out`."""
  out.unmeasured = dict(watch.absent)
  if percentile is not None:
    out.method = f"percentile {percentile:g}"
  for name, meter in watch.inputs.items():
    largest = _finite(name, meter)
    if largest == 0:
      out.unmeasured[name] = "its input was empty or all zeros"
    elif percentile is None:
      out.input_amax[name] = largest
    else:
      out.input_amax[name] = meter.percentile(percentile)
  for name, (keys, values) in watch.kv.items():
    pair = {"k": _finite(name, keys), "v": _finite(name, values)}
    if min(pair.values()) > 0:
      out.kv_amax[name] = pair
    else:
      out.unmeasured[name] = "it cached no keys and values"


def _finite(name: str, meter: Meter) -> float:
  largest = meter.largest()
  if not math.isfinite(largest):
    raise Invalid.of(name, "finite inputs", str(largest))
  return largest


def _hash_of(source: pathlib.Path) -> str:
  """Hashes config.json, and the name, size and both ends of every shard.

  Hashing whole shards would take as long as the run. The ends suffice, because
  training changes them, too.
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
