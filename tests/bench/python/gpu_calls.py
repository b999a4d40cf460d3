#!/usr/bin/env python3
"""Measures calls of a Python program on GPU memory, with torch tensors as inputs and outputs.

    gpu_calls.py --server quantd [--sizes BYTES,...] [--calls N] [--json FILE]

A server on GPU 0, which shares memory with this process, quantizes rows of bf16
with 1,024 columns to NVFP4, rotated, with a given amax. A call begins with a
tensor on the GPU and ends when its parts are on the GPU. The kernels' time is
the mean in the server's metrics of the same calls; the rest is overhead of the
transport. Threads sleep between calls in the first measurement, and poll
(--busy-poll-us) in the second. If the package has a CUDA engine, the same calls
also run in process (local:cuda:0). They have no metrics, so their kernels are
assumed to take as long as the server's.

The package is the one that this Python has, with its native engine; needs torch
and a GPU.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import time
import urllib.request

import torch

import quantd

COLUMNS = 1024
STAGE = re.compile(
    r'quantd_stage_duration_seconds_(sum|count)\{method="Quantize",stage="kernel"\} (\S+)')


def kernels(metrics):
  """Returns the seconds of kernels and the number of calls so far."""
  with urllib.request.urlopen(f"http://{metrics}/metrics") as page:
    found = dict(STAGE.findall(page.read().decode()))
  return float(found.get("sum", 0)), float(found.get("count", 0))


def in_process():
  """Returns a local connection to the GPU, or None if the package has no CUDA engine."""
  try:
    return quantd.connect("local:cuda:0", engine="native")
  except (quantd.Error, ValueError) as e:
    print(f"not in process: {e}")
    return None


def timed(connection, way, size, calls, metrics=None):
  """Returns the sorted microseconds of calls, and those of kernels from the metrics."""
  x = torch.randn(size // 2 // COLUMNS, COLUMNS, device="cuda",
                  dtype=torch.bfloat16)

  def call():
    t = connection.quantize(x, "nvfp4", rht="rowwise", given_amax=6.0)
    assert t.transport == way, t.transport
    return t.part("rowwise_data")

  for _ in range(10):
    call()
  torch.cuda.synchronize()
  seconds, count = kernels(metrics) if metrics else (0, 0)
  times = []
  for _ in range(calls):
    begin = time.perf_counter()
    call()
    times.append((time.perf_counter() - begin) * 1e6)
  more, all_of_them = kernels(metrics) if metrics else (0, 0)
  return sorted(times), (more - seconds) / max(all_of_them - count, 1) * 1e6


def row_of(size, times, kernel):
  p50 = statistics.median(times)
  return {"bytes": size, "calls": len(times), "p50_us": round(p50, 1),
          "p99_us": round(times[int(0.99 * len(times))], 1),
          "kernels_us": round(kernel, 1), "rest_us": round(p50 - kernel, 1)}


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--server", required=True)
  parser.add_argument("--sizes", default="4096,1048576,4194304,67108864,536870912")
  parser.add_argument("--calls", type=int, default=200)
  parser.add_argument("--json", type=pathlib.Path)
  known = parser.parse_args()
  rows = []

  def tell(row):
    print(json.dumps(row), flush=True)
    rows.append(row)

  for poll in (0, 500):
    with tempfile.TemporaryDirectory() as folder:
      port = pathlib.Path(folder, "port")
      server = subprocess.Popen([
          known.server, "--device", "cuda:0", "--listen", f"unix:{folder}/calls",
          "--memory-socket", f"{folder}/memory", "--metrics-address",
          "127.0.0.1:0", "--port-file", str(port), "--busy-poll-us", str(poll),
          "--log-level", "warn"])
      ready = pathlib.Path(folder, "port.metrics")
      while not ready.exists() or not ready.read_text().strip():
        if server.poll() is not None:
          raise SystemExit("the server did not start")
        time.sleep(0.05)
      try:
        with quantd.connect(f"unix:{folder}/calls", engine="native",
                            memory_socket=f"{folder}/memory",
                            busy_poll=poll * 20e-6) as connection:
          for size in map(int, known.sizes.split(",")):
            times, kernel = timed(connection, "cuda", size, known.calls,
                                  ready.read_text().strip())
            tell({"way": "cuda", "busy_poll_us": poll,
                  **row_of(size, times, kernel)})
      finally:
        server.terminate()
        server.wait()
  if connection := in_process():
    lasts = {row["bytes"]: row["kernels_us"] for row in rows}
    with connection:
      for size in map(int, known.sizes.split(",")):
        times, _ = timed(connection, "local", size, known.calls)
        tell({"way": "local", **row_of(size, times, lasts[size])})
  if known.json:
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__,
              "rows": rows}
    known.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
  main()
