"""The result of a calibration, as a value and as a file.

`quantctl convert --input-amax` reads the file. client/python/CALIBRATE.md
documents its format.
"""

import json
import os
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from quantd.errors import Invalid
from quantd.values import shown

__all__ = ["SCHEMA", "Calibration", "expert_of", "merge"]

SCHEMA = "quantd.calibration/1"
# "...mlp.experts.12.up_proj": the stack, the expert's number, the projection.
_EXPERT = re.compile(r"(.*\bexperts)\.(\d+)\.([^.]+)")


@dataclass
class Calibration:
  """The largest inputs of a model's modules, and how they were measured.

  Attributes:
    input_amax: The largest magnitude of each module's input, by the module's
      name in the checkpoint, or a percentile if `method` says so.
    kv_amax: The largest magnitudes "k" of keys and "v" of values as they are
      cached, after the rotary embedding, by the name of the attention module.
    filled: Modules of experts that saw no token. Their `input_amax` is the
      largest of their siblings.
    unmeasured: Modules without a value, and the reasons.
    method: "max", or for example "percentile 99.9".
    model: The name and the hash of the model.
    data: The name and the hash of each run's data, and the numbers of its
      sequences and tokens.
  """

  input_amax: dict[str, float] = field(default_factory=dict)
  kv_amax: dict[str, dict[str, float]] = field(default_factory=dict)
  filled: list[str] = field(default_factory=list)
  unmeasured: dict[str, str] = field(default_factory=dict)
  method: str = "max"
  model: dict[str, str] = field(default_factory=dict)
  data: list[dict[str, Any]] = field(default_factory=list)

  def save(self, path: str | os.PathLike[str]) -> None:
    """Writes the file under another name, and renames it when complete."""
    text = json.dumps(
      {"schema": SCHEMA} | asdict(self), indent=1, sort_keys=True
    )
    target = pathlib.Path(path)
    partial = target.with_name(f"{target.name}.partial")
    partial.write_text(text + "\n", "utf-8")
    partial.replace(target)

  @classmethod
  def load(cls, path: str | os.PathLike[str]) -> "Calibration":
    """Reads a file that `save` wrote.

    Raises:
      quantd.Invalid: The file has another format or version.
    """
    try:
      content = json.loads(pathlib.Path(path).read_text("utf-8"))
      schema = content.pop("schema", "none")
      if schema != SCHEMA:
        raise ValueError(f"schema {shown(schema)}")
      return cls(**content)
    except (ValueError, TypeError, AttributeError) as error:
      raise Invalid.of(str(path), f"a file of {SCHEMA}", str(error)) from error

  def fill(self) -> None:
    """Gives experts that saw no token the largest value of their siblings."""
    most: dict[tuple[str, str], float] = {}
    for name, amax in self.input_amax.items():
      if expert := expert_of(name):
        kind = (expert[0], expert[2])
        most[kind] = max(amax, most.get(kind, 0.0))
    for name in sorted(self.unmeasured):
      expert = expert_of(name)
      if expert and (expert[0], expert[2]) in most:
        self.input_amax[name] = most[expert[0], expert[2]]
        self.filled.append(name)
        del self.unmeasured[name]


def expert_of(module: str) -> tuple[str, int, str] | None:
  """Returns the stack, number and projection of an expert's module, or None."""
  found = _EXPERT.fullmatch(module)
  return (found[1], int(found[2]), found[3]) if found else None


def merge(parts: Sequence[Calibration]) -> Calibration:
  """Returns the maximum of calibrations of one model on different data.

  Raises:
    quantd.Invalid: The models or the methods differ.
  """
  if not parts:
    raise Invalid.of("merge", "calibrations", "none")
  out = Calibration(method=parts[0].method, model=dict(parts[0].model))
  reasons: dict[str, str] = {}
  for part in parts:
    if part.model.get("sha256") != out.model.get("sha256"):
      raise Invalid.of("merge", f"one model, {out.model}", str(part.model))
    if part.method != out.method:
      raise Invalid.of("merge", f"method {out.method}", part.method)
    made_up = set(part.filled)
    _raise(out.input_amax, part.input_amax, made_up)
    for name, pair in part.kv_amax.items():
      _raise(out.kv_amax.setdefault(name, {}), pair)
    reasons |= part.unmeasured | dict.fromkeys(made_up, "it saw no token")
    out.data += part.data
  measured = out.input_amax.keys() | out.kv_amax.keys()
  out.unmeasured = {n: why for n, why in reasons.items() if n not in measured}
  out.data.sort(key=lambda run: (run["name"], run["sha256"]))
  out.fill()
  return out


def _raise(
  most: dict[str, float], other: Mapping[str, float], but: Iterable[str] = ()
) -> None:
  for name in other.keys() - set(but):
    most[name] = max(other[name], most.get(name, 0.0))
