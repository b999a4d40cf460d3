"""`python -m quantd evaluate`: measures what a quantized model loses."""

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Sequence

import quantd
from quantd.calibration_command import add_data, batches_of
from quantd.calls.connecting import connect
from quantd.errors import Error
from quantd.evaluation import evaluate

__all__ = ["main"]


def main(words: Sequence[str]) -> None:
  """Runs the command; errors end the process with a message and code 1."""
  parser = argparse.ArgumentParser(
    prog="quantd evaluate",
    description="Compares a model with its quantized form, on text.",
  )
  add = parser.add_argument
  add("model", metavar="A", help="the original's directory")
  add("other", metavar="B", help="the quantized model's directory")
  add_data(parser)
  add("--json", type=pathlib.Path, metavar="FILE", help="write the results as JSON, too")
  add("--server", metavar="ADDRESS", help="server that quantizes activations")
  options = parser.parse_args(words)
  if not options.data:
    parser.error("expected --data FILE")
  try:
    batches, _ = batches_of(options)
    server = options.server or ("local" if quantd.engine == "native" else None)
    with connect(server) as connection:
      found = evaluate(
        options.model,
        options.other,
        batches,
        connection=connection,
        device_map=options.device_map,
        quantctl=options.quantctl,
      )
    if options.json:
      text = json.dumps(dataclasses.asdict(found), indent=1)
      options.json.write_text(text + "\n", "utf-8")
  except (Error, OSError) as error:
    sys.exit(f"quantd evaluate: {error}")
  print(found.table())
