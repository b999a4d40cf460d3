#!/usr/bin/env python3
"""Compares the CPU backend alone with calls in process and through shared memory.

    cpu_ways.py --build build/cpu [--rounds N] [--host TEXT] [--json FILE]

Quantizes 64 MiB of bf16 to rowwise NVFP4 with RHT, with a given and a computed
amax. Each round runs a few calls of `cpu_bench`, which calls the backend
directly, of `sdk_bench` in process, and of `sdk_bench` through a server's
shared memory, so that a slow moment of the machine affects all three. The
result is the median over rounds of the speed relative to `cpu_bench`. On two
shared cores rounds differ by half, so run thirty.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

BYTES = 64 << 20
# The row of cpu_bench, and the equivalent flags of sdk_bench.
AMAX = {"given": ("nvfp4_row_rht", ["--given-amax"]),
        "found": ("nvfp4_row_rht_amax", [])}


def bench(programs, row, calls):
  """Returns microseconds of a call in cpu_bench."""
  with tempfile.NamedTemporaryFile(suffix=".json") as out:
    subprocess.run([programs["cpu_bench"], "--threads", "0", "--isa", "best",
                    "--runs", str(calls), "--only", row, "--json", out.name],
                   check=True, capture_output=True)
    rows = json.load(out)["rows"]
  gbps = next(r["gbps"] for r in rows if r["name"] == row)
  return BYTES / gbps / 1e3


def sdk(programs, target, calls, *more):
  """Returns microseconds of a call of the C++ client."""
  said = subprocess.run([programs["sdk_bench"], *target, "--rht", *more],
                        input=f"{BYTES} 1 {calls}\n", check=True, text=True,
                        capture_output=True).stdout
  return json.loads(said.splitlines()[-1])["median_us"]


def quartiles(values):
  return [round(q, 3) for q in statistics.quantiles(values, n=4)]


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--build", type=pathlib.Path, required=True)
  parser.add_argument("--rounds", type=int, default=31)
  parser.add_argument("--calls", type=int, default=9)
  parser.add_argument("--host", default="")
  parser.add_argument("--commit", default="")
  parser.add_argument("--json", type=pathlib.Path)
  known = parser.parse_args()
  places = {"quantd": "server", "cpu_bench": "tests/bench",
            "sdk_bench": "tests/bench"}
  programs = {n: str(known.build / p / n) for n, p in places.items()}
  ratios = {(amax, way): [] for amax in AMAX for way in ("local", "shared")}
  with tempfile.TemporaryDirectory() as folder:
    calls, memory = pathlib.Path(folder, "calls"), pathlib.Path(folder, "memory")
    server = subprocess.Popen(
        [programs["quantd"], "--device", "cpu:0", "--listen", f"unix:{calls}",
         "--memory-socket", str(memory), "--shared-memory-limit", "2GiB",
         "--log-level", "warn"])
    try:
      while not (calls.exists() and memory.exists()):
        if server.poll() is not None:
          raise SystemExit("the server did not start")
        time.sleep(0.05)
      for i in range(known.rounds):
        for amax, (row, given) in AMAX.items():
          alone = bench(programs, row, known.calls)
          local = sdk(programs, ["local:cpu", "--in-place"], known.calls, *given)
          shared = sdk(programs, [f"unix:{calls}", "--memory-socket", str(memory)],
                       known.calls, *given)
          ratios[amax, "local"].append(alone / local)
          ratios[amax, "shared"].append(alone / shared)
        print(f"\r{i + 1} of {known.rounds}", end="", flush=True)
    finally:
      server.terminate()
      server.wait()
  print()
  rows = [{"amax": amax, "way": way,
           "of_cpu_bench": round(statistics.median(values), 3),
           "quartiles": quartiles(values)}
          for (amax, way), values in ratios.items()]
  for row in rows:
    print(json.dumps(row))
  if known.json:
    result = {"host": known.host, "commit": known.commit,
              "date": datetime.date.today().isoformat(), "bytes": BYTES,
              "rounds": known.rounds, "calls": known.calls, "rows": rows}
    known.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
  main()
