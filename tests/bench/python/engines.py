#!/usr/bin/env python3
"""Compares the engines of the Python package with the C++ client.

    engines.py --server quantd --sdk-bench sdk_bench [--rounds N] [--json FILE]

There is one server, and a process for each contender. Every round runs all of
them, so that a slow minute of the machine affects all. The results are medians
over rounds of ratios within a round. The package is the one that is installed
for this Python.

Contenders are the C++ client (`sdk_bench`), each engine through
`Connection.quantize`, and each engine through its own interface, which takes
serialized messages and shows the engine's own cost. All quantize rows of bf16
to NVFP4.
"""

import argparse
import contextlib
import datetime
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

COLUMNS = 1024
# Bytes of input, threads, calls of a thread in one round.
SHAPES = [(64 << 20, 1, 6), (64 << 20, 4, 2), (8 << 10, 1, 1500)]
# Settings of glibc's malloc like those of
# quantd.engines.native_engine.tune_allocator, for the engine without that call.
TUNED = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
         "MALLOC_TRIM_THRESHOLD_": str((1 << 31) - 1),
         "MALLOC_TOP_PAD_": str(64 << 20)}


# --- a contender, in a process of its own ------------------------------------


def make_call(engine, through, target):
  """Returns a function that quantizes an array."""
  import quantd
  from quantd import quantd_pb2 as pb
  from quantd.engines import open_engine
  from quantd.engines.engine import Settings
  if engine == "native":
    from quantd.engines.native_engine import tune_allocator
    tune_allocator()
  if through == "api":
    connection = quantd.connect(target, engine=engine)
    return lambda x: connection.quantize(x, "nvfp4", dtype="bf16")
  boundary = open_engine(Settings(target), engine)

  @functools.cache
  def header(shape):
    return pb.QuantizeRequest(
        tensor=pb.Tensor(dtype=pb.DTYPE_BF16, shape=shape),
        options=pb.QuantizeOptions(format=pb.FORMAT_NVFP4)).SerializeToString()

  return lambda x: boundary.call(
      "Quantize", header(x.shape), [x], {}, None, None)


def answer(call, size, threads, calls):
  import numpy as np
  inputs = []
  for i in range(threads):
    random = np.random.default_rng(i)
    values = random.integers(0x3F80, 0x4080, size // 2, dtype=np.uint16)
    values |= random.integers(0, 2, size // 2, dtype=np.uint16) << 15
    inputs.append(values.reshape(-1, COLUMNS))
  times = []
  begin = threading.Barrier(threads + 1)

  def work(x):
    begin.wait()
    for _ in range(calls):
      start = time.perf_counter()
      call(x)
      times.append((time.perf_counter() - start) * 1e6)

  running = [threading.Thread(target=work, args=(x,)) for x in inputs]
  if threads == 1:
    # The main thread makes the calls, as in a program, and handles signals.
    start = time.perf_counter()
    begin = threading.Barrier(1)
    work(inputs[0])
  else:
    for thread in running:
      thread.start()
    begin.wait()
    start = time.perf_counter()
    for thread in running:
      thread.join()
  seconds = time.perf_counter() - start
  if len(times) != threads * calls:
    raise RuntimeError("a call failed")
  return {"seconds": seconds, "microseconds": times}


def worker(engine, through, target):
  call = make_call(engine, through, target)
  for line in sys.stdin:
    print(json.dumps(answer(call, *map(int, line.split()))), flush=True)


# --- the comparison ----------------------------------------------------------


class Contender:
  """A process that replies to lines of input."""

  def __init__(self, name, command, **environment):
    self.name = name
    self.rounds = {shape: [] for shape in SHAPES}
    self.process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=dict(os.environ, **environment))

  def run(self, size, threads, calls):
    self.process.stdin.write(f"{size} {threads} {calls}\n")
    self.process.stdin.flush()
    return json.loads(self.process.stdout.readline())

  def stop(self):
    self.process.stdin.close()
    self.process.wait(timeout=60)


@contextlib.contextmanager
def serving(command, listen=("--listen", "127.0.0.1:0")):
  with tempfile.TemporaryDirectory() as folder:
    port = pathlib.Path(folder) / "port"
    with open(pathlib.Path(folder) / "log", "wb") as log:
      process = subprocess.Popen(
          [*command, *listen, "--port-file", port],
          stdout=log, stderr=log)
    try:
      while not port.exists() or not port.read_text().strip():
        if process.poll() is not None:
          raise RuntimeError("the server did not start")
        time.sleep(0.01)
      yield port.read_text().strip()
    finally:
      process.terminate()
      process.wait(timeout=60)


def value(shape, measured):
  """Returns GB/s of input, or for small tensors median microseconds."""
  size, threads, calls = shape
  if size < 1 << 20:
    return statistics.median(measured["microseconds"])
  return size * threads * calls / measured["seconds"] / 1e9


def measure(contenders, rounds):
  for turn in range(-1, rounds):  # the first one warms up
    for shape in SHAPES:
      for i in range(len(contenders)):
        contender = contenders[(i + turn + 1) % len(contenders)]
        size, threads, calls = shape
        few = calls if turn >= 0 else max(2, calls // 10)
        measured = contender.run(size, threads, few)
        if turn >= 0:
          contender.rounds[shape].append(value(shape, measured))


def rows_of(contenders):
  for shape in SHAPES:
    base = contenders[0].rounds[shape]
    for contender in contenders:
      own = contender.rounds[shape]
      row = {"contender": contender.name, "bytes": shape[0],
             "threads": shape[1], "rounds": own}
      if shape[0] < 1 << 20:
        row["p50_us"] = statistics.median(own)
        row["p50_us_over_sdk"] = statistics.median(
            a - b for a, b in zip(own, base, strict=True))
      else:
        row["gb_per_s"] = statistics.median(own)
        row["ratio_to_sdk"] = statistics.median(
            a / b for a, b in zip(own, base, strict=True))
      yield row


def show(rows):
  for row in rows:
    name = f"{row['contender']:18} {row['bytes'] >> 10:6} KiB x{row['threads']}"
    if "p50_us" in row:
      print(f"{name} {row['p50_us']:8.1f} us {row['p50_us_over_sdk']:+8.1f}")
    else:
      print(f"{name} {row['gb_per_s']:8.3f} GB/s {row['ratio_to_sdk']:7.2f}")


def parser_of(rounds, server_required=True):
  """Returns a parser with the common arguments of comparisons."""
  parser = argparse.ArgumentParser()
  parser.add_argument("--server", required=server_required)
  parser.add_argument("--rounds", type=int, default=rounds)
  parser.add_argument("--device", default="", help="description of this machine")
  parser.add_argument("--commit", default="")
  parser.add_argument("--note", default="", help="other load of the machine")
  parser.add_argument("--json")
  return parser


def run(contenders, measured):
  """Runs `measured` on the contenders and then stops their processes."""
  try:
    return measured(contenders)
  finally:
    for contender in contenders:
      contender.stop()


def keep(known, benchmark, rows, **facts):
  """Writes the rows to the file of --json, if given."""
  if not known.json:
    return
  today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
  pathlib.Path(known.json).write_text(json.dumps({
      "benchmark": benchmark, "device": known.device,
      "cores": os.cpu_count(), "date": today, "commit": known.commit,
      "note": known.note, **facts, "rounds": known.rounds,
      "rows": rows}, indent=2) + "\n")


def main():
  parser = parser_of(7)
  parser.add_argument("--sdk-bench", required=True)
  known = parser.parse_args()
  with serving([known.server]) as target:
    contenders = [Contender("sdk", [known.sdk_bench, target])]
    for engine in ("native", "grpc"):
      for through in ("api", "boundary"):
        contenders.append(Contender(
            f"{engine} {through}",
            [sys.executable, __file__, "--worker", engine, through, target],
            **(TUNED if engine == "grpc" else {})))
    run(contenders, lambda all: measure(all, known.rounds))
  rows = list(rows_of(contenders))
  show(rows)
  keep(known, "python engines", rows, python=sys.version.split()[0])


if __name__ == "__main__":
  if sys.argv[1:2] == ["--worker"]:
    worker(*sys.argv[2:])
  else:
    main()
