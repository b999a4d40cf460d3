"""What bands of a model became, put together into one directory.

Shards stay as they are. What the converter writes beside them says of each band
what it would say of the whole model, but for lists of modules and tensors.
"""

import json
import os
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from quantd.bands import CONFIG, INDEX, SHARD, WORK, Work, is_whole
from quantd.errors import Error


def finish(work: Work) -> None:
  """Puts bands together: shards, what lies beside them, config.json last.

  Raises:
    quantd.Error: A band is not whole, or says what cannot be put together.
  """
  target = pathlib.Path(work.output)
  outputs = [work.folder(i) for i in range(len(work.shards))]
  for folder in outputs:
    if not is_whole(folder):
      raise Error(f"{folder} is not whole")
  names = sorted(
    {e.name for folder in outputs for e in folder.glob("*.json")} - {CONFIG}
  )
  merged = {}
  for name in [n for n in names if n.endswith(INDEX)]:
    merged[name] = _merge_indexes([_read(f / name) for f in outputs])
  for name in ("hf_quant_config.json", CONFIG):
    found = [_read(f / name) for f in outputs if (f / name).exists()]
    if found:
      merged[name] = _merge(found, work.left_out)
  for band, folder in enumerate(outputs):
    for name in work.shards[band]:
      # It was moved by a call that was interrupted.
      if (folder / name).exists():
        (folder / name).replace(target / name)
  for entry in sorted(outputs[0].iterdir()):
    if entry.name in merged or entry.name.endswith(SHARD):
      continue
    if entry.is_dir():
      shutil.copytree(entry, target / entry.name, dirs_exist_ok=True)
    else:
      shutil.copyfile(entry, target / entry.name)
  for name, value in merged.items():
    _write(target / name, value)
  shutil.rmtree(target / WORK)


def _read(path: pathlib.Path) -> Any:
  return json.loads(path.read_text("utf-8"))


def _write(path: pathlib.Path, value: Any) -> None:
  """The text that the converter writes; whole or not at all."""
  draft = path.with_name(path.name + ".partial")
  with open(draft, "w", encoding="utf-8") as file:
    file.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    file.flush()
    os.fsync(file.fileno())
  draft.replace(path)


def _merge_indexes(indexes: Iterable[Any]) -> Any:
  size, where = 0, {}
  for index in indexes:
    size += index["metadata"]["total_size"]
    where.update(index["weight_map"])
  return {
    "metadata": {"total_size": size},
    "weight_map": dict(sorted(where.items())),
  }


def _merge(values: Sequence[Any], order: Sequence[str]) -> Any:
  """What the whole model's file says, from those of its bands.

  They differ in lists of modules alone, and in what is said of a cache whose
  scales only some bands have.
  """
  first = values[0]
  if all(value == first for value in values):
    return first
  if all(isinstance(value, dict) for value in values):
    keys = list(dict.fromkeys(key for value in values for key in value))
    return {
      key: _merge([value[key] for value in values if key in value], order)
      for key in keys
    }
  if all(isinstance(value, list) for value in values):
    return list(_ordered(values, order))
  known = [value for value in values if value is not None]
  if known and all(value == known[0] for value in known):
    return known[0]
  raise Error(f"bands say {values[0]!r} and {values[1]!r}")


def _ordered(lists: Iterable[list[Any]], order: Sequence[str]) -> Iterator[Any]:
  """Every module once, as the model has them, then those of no file."""
  seen = dict.fromkeys(name for some in lists for name in some)
  yield from (name for name in order if name in seen)
  yield from (name for name in seen if name not in order)
