#!/usr/bin/env python3
"""Compares one large call of the Python package in bands and in chunks with the
C++ client in bands.

    bands.py --server quantd --sdk-bench sdk_bench
             [--mib 64] [--band-mib 4] [--channels 4] [--computed]
             [--rounds N] [--json FILE]

Each contender is a process. Every round runs all of them, and the results are
ratios within a round. All quantize rows of bf16 to NVFP4 with a given amax,
into the caller's memory. With --computed the amax is computed, so that bands
share it. The package is the one that is installed for this Python.
"""

import json
import statistics
import sys
import time

import engines

COLUMNS = 1024
CALLS = 4


def values(size):
  import numpy as np
  random = np.random.default_rng(0)
  made = random.integers(0x3F80, 0x4080, size // 2, dtype=np.uint16)
  return made.reshape(-1, COLUMNS)


def api_call(settings, target, size):
  """Returns a call of the package that writes into the same buffers every time."""
  import numpy as np
  import quantd
  engine, computed = settings.pop("engine"), settings.pop("computed")
  if engine == "native":
    from quantd.engines.native_engine import tune_allocator
    tune_allocator()
  connection = quantd.connect(target, engine=engine, **settings)
  amax = None if computed else 16.0
  x = values(size)
  rows = len(x)
  out = {"rowwise_data": np.zeros((rows, COLUMNS // 2), np.uint8),
         "rowwise_scale": np.zeros((-(-rows // 128) * 128, COLUMNS // 16), np.uint8)}

  def call():
    t = connection.quantize(x, "nvfp4", dtype="bf16", given_amax=amax, out=out)
    if (t.bands > 1) != bool(settings.get("band_bytes")):
      raise RuntimeError("the call used another route")

  return call


def worker(settings, target):
  settings = json.loads(settings)
  made = {}
  for line in sys.stdin:
    size, _, calls = map(int, line.split())
    if size not in made:
      made[size] = api_call(dict(settings), target, size)
    start = time.perf_counter()
    for _ in range(calls):
      made[size]()
    print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)


def contenders_of(known, target):
  band, channels = known.band_mib << 20, known.channels
  bands = {"band_bytes": band, "channels": channels}

  def made(name, **settings):
    settings["computed"] = known.computed
    return engines.Contender(
        name, [sys.executable, __file__, "--worker", json.dumps(settings), target],
        **(engines.TUNED if settings["engine"] != "native" else {}))

  yield engines.Contender(
      "sdk bands", [known.sdk_bench, target, "--in-place",
                    *([] if known.computed else ["--given-amax"]),
                    "--band-bytes", str(band), "--channels", str(channels)])
  yield made("native bands", engine="native", **bands)
  yield made("native unary", engine="native")
  yield made("grpc stream", engine="grpc", stream_from=0)
  yield made("grpc unary", engine="grpc")


def measure(contenders, rounds, size):
  found = {contender.name: [] for contender in contenders}
  for turn in range(-1, rounds):  # the first one warms up
    for i in range(len(contenders)):
      contender = contenders[(i + turn + 1) % len(contenders)]
      seconds = contender.run(size, 1, CALLS)["seconds"]
      if turn >= 0:
        found[contender.name].append(size * CALLS / seconds / 1e9)
  return found


def rows_of(found, size):
  for name, own in found.items():
    row = {"contender": name, "bytes": size, "gb_per_s": statistics.median(own),
           "rounds": own}
    for base in ("sdk bands", "grpc unary"):
      row[f"ratio_to_{base.replace(' ', '_')}"] = statistics.median(
          a / b for a, b in zip(own, found[base], strict=True))
    yield row


def show(rows):
  print(f"{'':14} GB/s of input  of sdk bands  of grpc unary")
  for row in rows:
    print(f"{row['contender']:14} {row['gb_per_s']:13.3f}"
          f" {row['ratio_to_sdk_bands']:13.2f} {row['ratio_to_grpc_unary']:14.2f}")


def main():
  parser = engines.parser_of(7)
  parser.add_argument("--sdk-bench", required=True)
  parser.add_argument("--mib", type=int, default=64)
  parser.add_argument("--band-mib", type=int, default=4)
  parser.add_argument("--channels", type=int, default=4)
  parser.add_argument("--computed", action="store_true", help="compute the amax")
  known = parser.parse_args()
  size = known.mib << 20
  with engines.serving([known.server]) as target:
    contenders = list(contenders_of(known, target))
    found = engines.run(contenders, lambda all: measure(all, known.rounds, size))
  rows = list(rows_of(found, size))
  show(rows)
  engines.keep(known, "python bands", rows, band_bytes=known.band_mib << 20,
               channels=known.channels, computed=known.computed,
               python=sys.version.split()[0])


if __name__ == "__main__":
  if sys.argv[1:2] == ["--worker"]:
    worker(*sys.argv[2:])
  else:
    main()
