"""A model directory cut into bands that are converted apart.

A band is a run of neighbouring shards. Of them `quantctl convert --shards` makes
what it would have made of the whole: weights that share an amax are never torn
apart.
What the converter plans for the bands is compared with what it plans for the
whole model before any work is done, so the cut cannot change a byte unnoticed.

All of it is files: a band that is done is a directory that the converter left
without its journal, and one that was interrupted has the journal that it goes
on from. So any process on any machine that shares the file system goes on.
"""

import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from quantd.errors import Error, Invalid, Unavailable

WORK = ".quantd-bands"
_JOURNAL = ".quantd-journal"
CONFIG = "config.json"
INDEX = ".safetensors.index.json"
SHARD = ".safetensors"
# Of the whole model, or not what one process prints.
_FORBIDDEN = (
  "--dry-run",
  "--server",
  "--shards",
  "--json",
  "--report",
  "--target",
  "--write-rules",
)
# quantctl's exit codes after which the same command may succeed: no server, or
# an output that another process holds or that is full.
_AGAIN = (4, 7)


class Again(Unavailable):
  """A band was interrupted; converting it again goes on from there."""


@dataclass(frozen=True)
class Converted:
  """What a conversion was.

  Attributes:
    output: The directory.
    bands: How many tasks there were.
    resumed: Those of them that an earlier call had done.
  """

  output: str
  bands: int
  resumed: int


@dataclass(frozen=True)
class Work:
  """A conversion that is under way; plain values, for tasks elsewhere.

  Attributes:
    source: The model's directory.
    output: The directory to be written.
    servers: As quantctl's --server.
    flags: Further flags of `quantctl convert`.
    quantctl: The program.
    shards: Names of shards, for each band.
    left_out: Modules that stay as they are, in the order of the model.
  """

  source: str
  output: str
  servers: str
  flags: tuple[str, ...]
  quantctl: str
  shards: tuple[tuple[str, ...], ...]
  left_out: tuple[str, ...]

  def folder(self, band: int) -> pathlib.Path:
    """The directory that a band's task makes."""
    return pathlib.Path(self.output, WORK, f"{band:05d}.out")


def prepare(
  source: str,
  output: str,
  servers: str,
  flags: Sequence[str],
  quantctl: str,
) -> Work:
  """Cuts a model, and lays out the work or finds that of an earlier call.

  Raises:
    quantd.Invalid: It is no model, its bands would come to another plan, or
      the output is in use.
  """
  for flag in flags:
    if flag.partition("=")[0] in _FORBIDDEN or flag.endswith("auto"):
      raise Invalid.of("flags", "those of one conversion", repr(flag))
  model = pathlib.Path(source).resolve()
  target = pathlib.Path(output).resolve()
  if target == model or model in target.parents:
    raise Invalid.of("output", "a directory outside the model's", str(target))
  if not (model / CONFIG).is_file():
    raise Invalid.of("source", f"a directory with {CONFIG}", str(model))
  base = Work(str(model), str(target), servers, tuple(flags), quantctl, (), ())
  plan = _dry_run(base)
  formats = {w["format"] for group in plan["groups"] for w in group}
  if len(formats) != 1:
    raise Invalid.of(
      "flags",
      "one format for all weights; quantctl convert itself does others",
      " and ".join(sorted(formats)),
    )
  shards = _cut(_weight_map(model), plan)
  left = tuple(module["module"] for module in plan["left_out"])
  work = replace(base, shards=shards, left_out=left)
  _check_cut(work, plan)
  _claim(work)
  return work


def _dry_run(work: Work, shards: Sequence[str] = ()) -> dict[str, Any]:
  """What the converter would do with some shards, or with all."""
  with tempfile.TemporaryDirectory() as nowhere:
    answer = _run(work, shards, pathlib.Path(nowhere), "--dry-run")
  for line in answer.stdout.splitlines():
    event: dict[str, Any] = json.loads(line)
    if event.get("event") == "plan":
      return event
  raise Error("quantctl convert --dry-run printed no plan")


def _run(
  work: Work, shards: Sequence[str], output: pathlib.Path, *more: str
) -> "subprocess.CompletedProcess[str]":
  command = [work.quantctl, "convert", "--json", *more]
  if not more:
    command += ["--server", work.servers]
  if shards:
    command += ["--shards", ",".join(shards)]
  command += [*work.flags, "--", work.source, str(output)]
  try:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
  except OSError as missing:
    raise Invalid.of("quantctl", "the program", str(missing)) from missing
  if done.returncode == 0:
    return done
  said = done.stderr.strip() or f"exit code {done.returncode}"
  if done.returncode in _AGAIN or done.returncode < 0:
    raise Again(said)
  if done.returncode in (2, 3):
    raise Invalid(said)
  raise Error(said)


def _weight_map(model: pathlib.Path) -> dict[str, str]:
  """The shard of each tensor."""
  indexes = sorted(model.glob("*" + INDEX))
  if indexes:
    index = json.loads(indexes[0].read_text("utf-8"))
    return {str(k): str(v) for k, v in index["weight_map"].items()}
  # Adapters, for example, may lie beside one that has the usual name.
  shards = sorted(model.glob("*" + SHARD), key=lambda s: (s.stem != "model", s))
  return {"": shards[0].name}


def _cut(
  where: dict[str, str], plan: dict[str, Any]
) -> tuple[tuple[str, ...], ...]:
  """Runs of shards, as short as they can be."""
  shards = sorted(set(where.values()))
  number = {shard: i for i, shard in enumerate(shards)}
  if len(shards) == 1:
    return (tuple(shards),)

  def shards_of(module: str) -> list[int]:
    alone = where.get(module + ".weight")
    if alone is not None:
      return [number[alone]]
    # One of a stack, or something the like: whatever is near it in the tree of
    # names stays together with it.
    near = module
    while near:
      found = {number[s] for t, s in where.items() if t.startswith(near + ".")}
      if found:
        return sorted(found)
      near = near.rpartition(".")[0]
    return list(range(len(shards)))

  # Whether shard i + 1 is in the band of shard i.
  joined = [False] * (len(shards) - 1)
  holds = [False] * len(shards)
  together = [[w["module"] for w in group] for group in plan["groups"]]
  alone = [[left["module"]] for left in plan["left_out"]]
  for i, modules in enumerate(together + alone):
    found = [n for module in modules for n in shards_of(module)]
    for n in range(min(found), max(found)):
      joined[n] = True
    if i < len(together):
      holds[min(found)] = True
  bands = [[0]]
  for n in range(1, len(shards)):
    # The converter takes no model without a weight to quantize.
    if joined[n - 1] or not any(holds[m] for m in bands[-1]):
      bands[-1].append(n)
    else:
      bands.append([n])
  if len(bands) > 1 and not any(holds[m] for m in bands[-1]):
    last = bands.pop()
    bands[-1] += last
  return tuple(tuple(shards[n] for n in band) for band in bands)


def _check_cut(work: Work, plan: dict[str, Any]) -> None:
  """Holds the plans of all bands against that of the whole."""
  groups, left, size = [], [], 0
  for shards in work.shards:
    part = _dry_run(work, shards)
    groups += part["groups"]
    left += part["left_out"]
    size += part["bytes_out"]
  same = sorted(map(json.dumps, groups)) == sorted(
    map(json.dumps, plan["groups"])
  )
  if (same, left, size) != (True, plan["left_out"], plan["bytes_out"]):
    raise Invalid.of(
      "source",
      "a model whose shards can be converted apart; quantctl convert itself "
      "does this one",
      "one whose shards depend on each other",
    )


def _claim(work: Work) -> None:
  """Makes the work's directory, or checks that it is of the same work."""
  place = pathlib.Path(work.output, WORK)
  model = pathlib.Path(work.source)
  facts = asdict(work)
  # Servers and programs come and go; bytes do not depend on them.
  del facts["servers"], facts["quantctl"]
  facts["files"] = [
    [name, (info := (model / name).stat()).st_size, info.st_mtime_ns]
    for band in work.shards
    for name in band
  ]
  text = json.dumps(facts, indent=1)
  said = place / "work.json"
  if said.exists():
    if said.read_text("utf-8") != text:
      raise Invalid.of(
        "output", "the conversion that was begun there", "another one"
      )
    return
  if os.path.isdir(work.output) and os.listdir(work.output) not in (
    [],
    [WORK],
  ):
    raise Invalid.of("output", "an empty directory", work.output)
  place.mkdir(parents=True, exist_ok=True)
  draft = place / f"work.{os.getpid()}"
  draft.write_text(text, "utf-8")
  draft.replace(said)


def is_whole(folder: pathlib.Path) -> bool:
  """Whether the converter is done: it removes its journal last."""
  return (folder / CONFIG).exists() and not (folder / _JOURNAL).exists()


def convert_band(work: Work, band: int) -> bool:
  """Converts a band, or goes on with it.

  Returns:
    Whether there was nothing left to do.

  Raises:
    Again: No server, or another process does it; the same call goes on.
    quantd.Error: It cannot be done.
  """
  output = work.folder(band)
  if is_whole(output):
    return True
  _run(work, work.shards[band], output)
  return False
