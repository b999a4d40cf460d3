"""`quantd.convert`: converts whole models with the program quantctl."""

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from quantd.calls import progress as telling
from quantd.calls.progress import Wanted
from quantd.errors import Error, Invalid, Unavailable, Unimplemented
from quantd.options import refuse_unknown
from quantd.values import is_list, shown

Path = str | os.PathLike[str]


class ConvertKeywords(TypedDict, total=False):
  """The options of `quantctl convert`; its help describes each of them.

  An option without a value is True, and one that can be repeated is a list.
  `rule` may also be a mapping: {"*.o_proj": "bf16"}.
  """

  dialect: str
  format: str
  profile: str
  target: str
  only: list[str]
  ignore: list[str]
  include: list[str]
  rule: Mapping[str, str] | list[str]
  rules: Path
  write_rules: Path
  fuse: list[str]
  shards: str
  input_amax: Path
  kv_cache: str
  statistics: bool
  report: Path
  memory: int
  server: str
  memory_socket: Path
  transport: str
  deadline: float
  dry_run: bool
  tls: bool
  tls_ca: Path
  tls_cert: Path
  tls_key: Path
  tls_name: str
  token_file: Path


@dataclass(frozen=True)
class Conversion:
  """The result of a conversion, from `quantctl convert --json`.

  Attributes:
    output: The directory that was written.
    plan: The event "plan": groups of weights, unquantized weights, bytes.
    weights: The events "group": modules, format, and SQNR if requested. Empty
      after a dry run.
    total: The event "done": bytes, seconds, the report. Empty after a dry run.
  """

  output: str
  plan: Mapping[str, Any]
  weights: tuple[Mapping[str, Any], ...]
  total: Mapping[str, Any]


def convert(
  source: Path,
  output: Path,
  *,
  progress: Wanted = False,
  quantctl: Path | None = None,
  **options: Unpack[ConvertKeywords],
) -> Conversion:
  """Quantizes a model into a directory that inference engines load.

  Runs the program `quantctl convert` and writes the same files and report. To
  continue an interrupted conversion, repeat the same call.

  Args:
    source: The model's directory, or a .safetensors file.
    output: The directory to write.
    progress: True shows a bar if tqdm is installed. A function is called with
      the bytes of weights that are done and the total. If it raises, the
      conversion ends.
    quantctl: The program. None uses the one installed with this package, or
      the one in PATH.
    **options: Options of the command, as `ConvertKeywords` lists them, such as
      format="nvfp4", dialect="modelopt", only=["*.mlp.*"], statistics=True,
      report="report", server="local".

  Returns:
    The plan and the results.

  Raises:
    quantd.Invalid: The model or an option is invalid.
    quantd.Unavailable: No server answers.
    quantd.Unimplemented: quantctl is missing. The error says how to get it.
    quantd.Error: Some weights failed, or the output cannot be written.
  """
  refuse_unknown("convert", options, ConvertKeywords)
  command = [_program(quantctl), "convert", "--json", *_flags(options)]
  command += ["--", os.fspath(source), os.fspath(output)]
  plan: dict[str, Any] = {}
  total: dict[str, Any] = {}
  weights: list[dict[str, Any]] = []
  tell, close = telling.function_of(progress, 0, "convert")
  events = _events(command)
  try:
    for event in events:
      kind = event.pop("event", "")
      if kind == "plan":
        plan = event
      elif kind == "group":
        weights.append(event)
      elif kind == "done":
        total = event
      if tell is not None and kind in ("plan", "group"):
        groups = (w for group in plan["groups"] for w in group)
        of = sum(w["bytes_in"] for w in groups)
        tell(sum(w["bytes_in"] for w in weights), of)
  finally:
    events.close()
    close()
  return Conversion(os.fspath(output), plan, tuple(weights), total)


def _program(quantctl: Path | None) -> str:
  """Returns the path of the program."""
  if quantctl is not None:
    return os.fspath(quantctl)
  scripts = sysconfig.get_path("scripts")
  found = shutil.which("quantctl", path=scripts) or shutil.which("quantctl")
  if found is None:
    raise Unimplemented(
      "convert() needs the program quantctl, which was not found: install the "
      "native wheel or the Debian package of quantd, or pass quantctl=PATH"
    )
  return found


def _flags(options: ConvertKeywords) -> Iterator[str]:
  """Yields the options as arguments of the command."""
  for name, value in options.items():
    flag = f"--{name.replace('_', '-')}"
    values: Any = [value]
    if isinstance(value, Mapping):
      values = [f"{pattern}={word}" for pattern, word in value.items()]
    elif value is None or value is False or is_list(value):
      values = value or []
    for one in values:
      if one is True:
        yield flag
      elif isinstance(one, (str, os.PathLike, int, float)):
        yield f"{flag}={os.fspath(one) if isinstance(one, os.PathLike) else one}"
      else:
        raise Invalid.of(name, "text, a number, a path or a list of them", shown(one))


def _events(command: list[str]) -> Generator[dict[str, Any], None, None]:
  """Runs the command and yields its events."""
  with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
    try:
      child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=said, encoding="utf-8"
      )
    except OSError as missing:
      raise Invalid.of("quantctl", "the program", str(missing)) from missing
    with child:
      try:
        for line in child.stdout or ():
          # An event is a JSON object on one line. An error takes several lines.
          if line.startswith("{") and line.endswith("}\n"):
            yield json.loads(line)
      except BaseException:
        child.terminate()
        raise
    if child.returncode != 0:
      said.seek(0)
      text = said.read().replace("quantctl: ", "").strip()
      text = text or f"quantctl ended with {child.returncode}"
      raise _KINDS.get(child.returncode, Error)(text)


# Errors by exit code: wrong usage, invalid input, no server, refused.
_KINDS = {2: Invalid, 3: Invalid, 4: Unavailable, 5: Invalid}
