#!/usr/bin/env python3
"""Compares quantd with a plain Python gRPC server around torchao on the same
machine.

    torchao_server.py [--mib 64] [--clients 1] [--rounds 5] [--torch-device cuda]
                      [--compile] [--server quantd --sdk-bench sdk_bench
                      [--quantd-flag=FLAG...] [--channels 8]] [--json FILE]

The Python server takes rows of bf16 as raw bytes, quantizes them to NVFP4 with
torchao (amax, then codes and scales in blocks of 16) on the given device, by
default a GPU if torch has one, and returns codes, scales and the global scale.
It has no protobuf, options, errors or memory bound, all of which would take
time. Its client is a separate process that sends one tensor after another.

With --server and --sdk-bench it also starts quantd, with the flags of
--quantd-flag (--quantd-flag=--device --quantd-flag=cuda:0), and the C++ client
quantizes tensors of the same size, as one call and in bands. Every round runs
all contenders; the results are medians of the ratios within a round.

Needs torch, torchao, grpcio and numpy.
"""

import concurrent.futures
import contextlib
import json
import pathlib
import signal
import statistics
import struct
import sys
import threading
import time

import engines

COLUMNS = 1024
METHOD = "/torchao.Quantizer/Quantize"
# Rows and columns precede the elements.
HEAD = struct.Struct("<qq")
UNBOUNDED = [("grpc.max_receive_message_length", -1),
             ("grpc.max_send_message_length", -1)]
BAND = 4 << 20


# --- the server ---------------------------------------------------------------


def quantizer(device, compiled):
  """Returns a function from a tensor on the device to codes, scales and global scale."""
  import torch
  from torchao.prototype.mx_formats.nvfp4_tensor import (
      NVFP4Tensor, per_tensor_amax_to_scale)

  def quantize(x):
    scale = per_tensor_amax_to_scale(x.abs().max())
    made = NVFP4Tensor.to_nvfp4(x, per_tensor_scale=scale)
    return made.qdata, made.scale, scale

  return torch.compile(quantize) if compiled else quantize


def answer(quantize, device, request):
  import torch
  rows, columns = HEAD.unpack_from(request)
  # torch warns because the buffer is read-only, but no code writes to it.
  values = torch.frombuffer(request, dtype=torch.bfloat16, offset=HEAD.size)
  parts = quantize(values.view(rows, columns).to(device))
  return b"".join(
      part.contiguous().view(torch.uint8).cpu().numpy().tobytes()
      for part in (p.reshape(-1) for p in parts))


def serve(device, compiled, port_file):
  import warnings

  import grpc
  warnings.filterwarnings("ignore", message="The given buffer is not writable")
  quantize = quantizer(device, compiled)

  class Service(grpc.GenericRpcHandler):
    def service(self, call):
      if call.method != METHOD:
        return None
      return grpc.unary_unary_rpc_method_handler(
          lambda request, context: answer(quantize, device, request))

  server = grpc.server(
      concurrent.futures.ThreadPoolExecutor(8), options=UNBOUNDED)
  server.add_generic_rpc_handlers((Service(),))
  port = server.add_insecure_port("127.0.0.1:0")
  server.start()
  draft = pathlib.Path(port_file + ".draft")
  draft.write_text(f"127.0.0.1:{port}\n")
  draft.replace(port_file)
  stop = threading.Event()
  signal.signal(signal.SIGTERM, lambda *_: stop.set())
  stop.wait()
  server.stop(1).wait()


# --- its client ---------------------------------------------------------------


def client(target):
  """Replies to the lines that `engines.Contender` writes."""
  import grpc
  import numpy as np
  channel = grpc.insecure_channel(target, UNBOUNDED)
  call = channel.unary_unary(METHOD)
  for line in sys.stdin:
    size, threads, calls = map(int, line.split())
    rows = size // 2 // COLUMNS
    random = np.random.default_rng(0)
    tensor = random.integers(0x3F80, 0x4080, rows * COLUMNS, dtype=np.uint16)
    expected = rows * COLUMNS // 2 + rows * COLUMNS // 16 + 4

    def work():
      for _ in range(calls):
        request = HEAD.pack(rows, COLUMNS) + tensor.tobytes()
        reply = call(request, timeout=600)
        if len(reply) != expected:
          raise RuntimeError(f"{len(reply)} bytes, not {expected}")

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(threads) as running:
      for done in [running.submit(work) for _ in range(threads)]:
        done.result()
    print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)


# --- the comparison -----------------------------------------------------------


def measure(contenders, rounds, size, clients):
  """Returns MB/s of input of each contender in each round."""
  found = {contender.name: [] for contender in contenders}
  for turn in range(-1, rounds):  # the first one warms up
    for contender in contenders:
      calls = 8 if contender.name.startswith("quantd") and turn >= 0 else 2
      seconds = contender.run(size, clients, calls)["seconds"]
      if turn >= 0:
        found[contender.name].append(size * clients * calls / seconds / 1e6)
  return found


def rows_of(found):
  for name, own in found.items():
    row = {"contender": name, "mb_per_s": statistics.median(own), "rounds": own}
    if name != "torchao":
      row["times_torchao"] = statistics.median(
          a / b for a, b in zip(own, found["torchao"], strict=True))
    yield row


def default_device():
  import torch
  return "cuda" if torch.cuda.is_available() else "cpu"


def main():
  parser = engines.parser_of(5, server_required=False)
  parser.add_argument("--sdk-bench")
  parser.add_argument("--quantd-flag", action="append", default=[])
  parser.add_argument("--channels", type=int, default=8)
  parser.add_argument("--mib", type=int, default=64)
  parser.add_argument("--clients", type=int, default=1)
  parser.add_argument("--torch-device", default="")
  parser.add_argument("--compile", action="store_true")
  known = parser.parse_args()
  if bool(known.server) != bool(known.sdk_bench):
    parser.error("--server and --sdk-bench belong together")
  device = known.torch_device or default_device()
  with contextlib.ExitStack() as stack:
    target = stack.enter_context(engines.serving(
        [sys.executable, __file__, "--serve", device, str(int(known.compile))],
        listen=()))
    contenders = [engines.Contender(
        "torchao", [sys.executable, __file__, "--client", target])]
    if known.server:
      quantd = stack.enter_context(
          engines.serving([known.server, *known.quantd_flag]))
      line = [known.sdk_bench, quantd, "--in-place"]
      bands = ["--given-amax", "--band-bytes", str(BAND), "--channels",
               str(known.channels)]
      contenders += [
          engines.Contender("quantd one call", line),
          engines.Contender("quantd in bands", [*line, *bands])]
    found = engines.run(contenders, lambda all: measure(
        all, known.rounds, known.mib << 20, known.clients))
  rows = list(rows_of(found))
  for row in rows:
    times = f"   {row['times_torchao']:7.1f} times torchao" \
        if "times_torchao" in row else ""
    print(f"{row['contender']:16} {row['mb_per_s']:10.1f} MB/s{times}")
  engines.keep(known, "torchao server", rows, bytes=known.mib << 20,
               clients=known.clients, torch_device=device,
               compiled=known.compile)


if __name__ == "__main__":
  if sys.argv[1:2] == ["--serve"]:
    device, compiled, _, port_file = sys.argv[2:]
    serve(device, compiled == "1", port_file)
  elif sys.argv[1:2] == ["--client"]:
    client(sys.argv[2])
  else:
    main()
