#!/usr/bin/env python3
"""Compares the engines of the Python package with other libraries on the same cores.

    peers.py --server quantd [--environments build/ecosystem] [--rounds N]
             [--json FILE]

Each contender quantizes the same bf16 tensor in host memory to rowwise NVFP4.
quantd runs by `Connection.quantize` over loopback, with the package installed
for this Python. llm-compressor, ModelOpt and torchao each run in a process with
a thread per core, through the code of tests/ecosystem, in the environments that
tests/ecosystem/run.sh makes. Every round runs all contenders; the results are
medians of the ratios within a round.
"""

import json
import os
import pathlib
import statistics
import sys
import time

import engines

HERE = pathlib.Path(__file__).resolve().parent
ECOSYSTEM = HERE.parents[1] / "ecosystem"
SIZE = 64 << 20  # bytes of input
COLUMNS = 4096
LIBRARIES = ["compressed-tensors", "modelopt", "torchao"]


def library_worker(name):
  import importlib

  # Libraries print to standard output, so replies use another descriptor.
  answers = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)
  import torch
  library = importlib.import_module(f"libraries.by_{name.replace('-', '_')}")
  for line in sys.stdin:
    size, _, calls = map(int, line.split())
    torch.manual_seed(0)
    weight = torch.randn(size // 2 // COLUMNS, COLUMNS).to(torch.bfloat16)
    start = time.perf_counter()
    for _ in range(calls):
      library.pack({"weight": weight}, "nvfp4")
    seconds = time.perf_counter() - start
    said = {"seconds": seconds, "microseconds": []}
    print(json.dumps(said), file=answers, flush=True)


def contenders_of(target, environments):
  found = [
      engines.Contender(
          f"quantd {engine}",
          [sys.executable, engines.__file__, "--worker", engine, "api", target],
          **(engines.TUNED if engine == "grpc" else {}))
      for engine in ("native", "grpc")
  ]
  for name in LIBRARIES:
    python = environments / name / "bin/python"
    if not python.exists():
      print(f"SKIPPED: {name} is not installed (tests/ecosystem/run.sh installs it)")
      continue
    found.append(engines.Contender(
        name, [python, __file__, "--worker", name],
        PYTHONPATH=str(ECOSYSTEM), HF_HUB_OFFLINE="1"))
  return found


def measure(contenders, rounds):
  """Returns GB/s of input of each contender in each round."""
  found = {contender.name: [] for contender in contenders}
  for turn in range(-1, rounds):  # the first one warms up
    for contender in contenders:
      calls = 6 if contender.name.startswith("quantd") and turn >= 0 else 1
      seconds = contender.run(SIZE, 1, calls)["seconds"]
      if turn >= 0:
        found[contender.name].append(SIZE * calls / seconds / 1e9)
  return found


def rows_of(found):
  """Returns the speed of the engines relative to each library."""
  for name, own in found.items():
    row = {"contender": name, "gb_per_s": statistics.median(own), "rounds": own}
    if not name.startswith("quantd"):
      for engine in ("native", "grpc"):
        row[f"{engine}_times"] = statistics.median(
            ours / theirs for ours, theirs in
            zip(found[f"quantd {engine}"], own, strict=True))
    yield row


def show(row):
  times = "".join(f"   {engine} {row[f'{engine}_times']:6.1f} times"
                  for engine in ("native", "grpc") if f"{engine}_times" in row)
  print(f"{row['contender']:20} {row['gb_per_s']:8.4f} GB/s{times}")


def main():
  parser = engines.parser_of(5)
  parser.add_argument("--environments", type=pathlib.Path,
                      default=HERE.parents[2] / "build/ecosystem")
  known = parser.parse_args()
  with engines.serving([known.server]) as target:
    contenders = contenders_of(target, known.environments.resolve())
    found = engines.run(contenders, lambda all: measure(all, known.rounds))
  rows = list(rows_of(found))
  for row in rows:
    show(row)
  engines.keep(known, "python peers", rows, bytes=SIZE)


if __name__ == "__main__":
  if sys.argv[1:2] == ["--worker"]:
    library_worker(sys.argv[2])
  else:
    main()
