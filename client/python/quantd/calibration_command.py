"""`python -m quantd calibrate`: writes a file for `quantctl convert --input-amax`."""

import argparse
import pathlib
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from quantd import calibration_data
from quantd.calibration import calibrate
from quantd.calibration_file import Calibration, merge
from quantd.errors import Error, Invalid

__all__ = ["add_data", "batches_of", "main"]


def main(words: Sequence[str]) -> None:
  """Runs the command. An error ends the process with exit code 1."""
  parser = _parser()
  options = parser.parse_args(words)
  if bool(options.model) == bool(options.merge):
    parser.error("expected either MODEL or --merge FILE FILE ...")
  if options.model and not (options.data or options.tokens):
    parser.error("expected --data FILE, or --tokens N to run without data")
  warnings.showwarning = _show
  try:
    if options.merge:
      found = merge([Calibration.load(path) for path in options.merge])
    else:
      found = _measure(options)
    found.save(options.out)
  except (Error, OSError) as error:
    sys.exit(f"quantd calibrate: {error}")
  _tell(found, options)


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="quantd calibrate",
    description="Measures the inputs of a model's modules, for quantctl "
    "convert --input-amax.",
  )
  add = parser.add_argument
  add("model", nargs="?", metavar="MODEL", help="a model's directory")
  add("--out", required=True, metavar="FILE", help="the file to write")
  add_data(parser)
  add(
    "--percentile",
    type=float,
    metavar="P",
    help="measure a percentile instead of the maximum",
  )
  add(
    "--include",
    action="append",
    default=[],
    metavar="PATTERN",
    help="as for quantctl convert",
  )
  add(
    "--merge",
    nargs="+",
    metavar="FILE",
    help="write the maxima of these files instead of measuring",
  )
  return parser


def add_data(parser: argparse.ArgumentParser) -> None:
  """Adds the options that calibrate and evaluate share."""
  add = parser.add_argument
  add(
    "--data",
    type=pathlib.Path,
    metavar="FILE",
    help="texts or chats: .jsonl, .parquet, .txt or .md",
  )
  add("--tokens", type=_count, metavar="N", help="limit of tokens in total")
  add(
    "--samples",
    type=_count,
    default=512,
    metavar="N",
    help="limit of samples (512)",
  )
  add(
    "--length",
    type=_count,
    default=2048,
    metavar="N",
    help="limit of tokens per sample (2048)",
  )
  add(
    "--seed",
    type=int,
    default=0,
    help="seed of the random choice if there are more samples (0)",
  )
  add(
    "--device-map",
    metavar="MAP",
    help="where transformers puts the model, such as auto",
  )
  add(
    "--quantctl",
    metavar="PATH",
    help="the program quantctl, if $PATH does not have it",
  )


def _count(word: str) -> int:
  number = int(word)
  if number < 1:
    raise argparse.ArgumentTypeError(f"expected a number >= 1, got {word}")
  return number


def _measure(options: argparse.Namespace) -> Calibration:
  batches, name = batches_of(options)
  return calibrate(
    options.model,
    batches,
    include=options.include,
    percentile=options.percentile,
    data=name,
    progress=sys.stderr.isatty(),
    device_map=options.device_map,
    quantctl=options.quantctl,
  )


def batches_of(o: argparse.Namespace) -> tuple[list[Any], str]:
  """Returns the sequences and the name of the data."""
  from transformers import AutoTokenizer

  # Without tokenizer files, transformers makes a tokenizer with no vocabulary.
  if not [*pathlib.Path(o.model).glob("*token*")]:
    raise Invalid.of("MODEL", "a directory with its tokenizer", o.model)
  tokenizer = AutoTokenizer.from_pretrained(o.model)
  if o.data:
    samples = calibration_data.texts_of(o.data, o.length)
    name = f"{o.data.name}, seed {o.seed}"
  else:
    _say(
      "NO DATA: measuring on pages of Python's help; scales are better with "
      "--data FILE that has text like your users'"
    )
    samples = calibration_data.texts_of_python(o.length)
    name = f"help of Python {sys.version.split()[0]}, seed {o.seed}"
  ids = calibration_data.sequences(
    tokenizer,
    samples,
    most=o.samples,
    length=o.length,
    tokens=o.tokens,
    seed=o.seed,
  )
  return ids, name


def _tell(found: Calibration, options: argparse.Namespace) -> None:
  tokens = sum(run["tokens"] for run in found.data)
  print(
    f"wrote {options.out}: {len(found.input_amax)} modules ({found.method}), "
    f"keys and values of {len(found.kv_amax)} layers, {tokens} tokens"
  )
  for name, why in sorted(found.unmeasured.items()):
    print(f"not measured: {name}: {why}")
  source = options.model or found.model.get("name", "MODEL")
  print(f"next: quantctl convert {source} OUT --input-amax {options.out}")


def _say(text: str) -> None:
  print(f"quantd calibrate: {text}", file=sys.stderr)


def _show(message: Any, *_: Any, **__: Any) -> None:
  _say(str(message))
