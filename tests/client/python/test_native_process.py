"""Tests of the native engine with forks, signals, exits and other libraries."""

import importlib.util
import os
import signal
import subprocess
import sys
import time

import pytest

from conftest import native_only
from servers import scripted
from test_native import slow

pytestmark = native_only

START = """
import os, signal, sys, threading, time
import quantd
from quantd import quantd_pb2 as pb
from quantd.engines.engine import Settings
from quantd.engines.native_engine import Engine
# A shell starts background processes with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
def ask(engine):
  reply = engine.call("GetServerInfo", b"", [], {})
  return pb.GetServerInfoReply.FromString(reply.header).version
def say(*words):
  print(*words, flush=True)
"""


class Script:
  """A separate Python process, which must exit by itself."""

  def __init__(self, text, *arguments, **environment):
    self.process = subprocess.Popen(
        [sys.executable, "-c", START + text, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=dict(os.environ, **environment))

  def line(self):
    return self.process.stdout.readline().strip()

  def end(self, timeout=20):
    """Returns the remaining output lines; raises an error if the process hangs or fails."""
    try:
      out, err = self.process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
      self.process.kill()
      out, err = self.process.communicate()
      raise AssertionError(f"the script hangs: {out} {err}") from None
    assert self.process.returncode == 0, (self.process.returncode, out, err)
    return out.split("\n")[:-1]


HANDLER = """
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append("seen"))
engine = Engine(Settings(sys.argv[1]))
say("ready")
say(ask(engine), *seen)
signal.signal(signal.SIGINT, signal.SIG_IGN)
say("ready")
say(ask(engine), *seen)
"""


def test_interrupt_that_is_handled_or_ignored():
  """A call continues to its end if the signal handler raises nothing."""
  with scripted(slow(2)) as server:
    script = Script(HANDLER, server.address)
    for _ in range(2):
      assert script.line() == "ready"
      time.sleep(0.7)
      script.process.send_signal(signal.SIGINT)
      assert script.line() == "slow seen"
    assert script.end() == []
    # The first call was sent twice, the second one once.
    assert len(server.calls) == 3


DAEMON = """
engine = Engine(Settings(sys.argv[1]))
for _ in range(4):
  threading.Thread(target=ask, args=(engine,), daemon=True).start()
time.sleep(0.3)
say("end")
"""


def test_exit_amid_calls_of_daemon_threads():
  with scripted(slow(20)) as server:
    assert Script(DAEMON, server.address).end() == ["end"]


LEAK = """
import numpy as np
from quantd.engines.engine import Cancellation, How
engine, calls = Engine(Settings(sys.argv[1])), int(sys.argv[2])
def header(cols):
  return pb.QuantizeRequest(
      tensor=pb.Tensor(dtype=pb.DTYPE_BF16, shape=[16, cols]),
      options=pb.QuantizeOptions(format=pb.FORMAT_NVFP4)).SerializeToString()
good, refused = header(64), header(63)
x, codes = np.ones((16, 64), np.uint16), np.empty(16 * 32, np.uint8)
short, stop = x[:1], Cancellation()
into = {pb.TENSOR_KIND_ROWWISE_DATA: codes}
def some(count):
  for _ in range(count // 5):
    engine.call("Quantize", good, [x], {})
    engine.call("Quantize", good, [x], into, How(5.0, stop))
    engine.call("Quantize", good, [x[:8], x[8:]], {})
    for message, payload in ((refused, x), (good, short)):
      try:
        engine.call("Quantize", message, [payload], {})
        say("no error")
      except quantd.Invalid:
        pass
def resident():
  with open("/proc/self/statm") as memory:
    return int(memory.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 10
some(calls // 4)
for _ in range(4):
  some(calls // 4)
  say(resident())
"""


def test_small_calls_leak_nothing(server):
  """Covers calls that succeed, are refused, or have a cancellation.
  """
  calls = int(os.environ.get("QUANTD_LEAK_CALLS", "20000"))
  kib = [int(line) for line in Script(LEAK, server, str(calls)).end(500)]
  # Caches fill in the first quarter of the calls.
  assert kib[3] - kib[0] < 512, kib
  print(f"{calls} calls: resident {kib} KiB")


LARGE = """
import numpy as np
engine, rows, cols = Engine(Settings(sys.argv[1])), 8192, 16384
message = pb.QuantizeRequest(
    tensor=pb.Tensor(dtype=pb.DTYPE_BF16, shape=[rows, cols]),
    options=pb.QuantizeOptions(format=pb.FORMAT_NVFP4)).SerializeToString()
x = np.full((rows, cols), 0x3F80, np.uint16)
sizes = {pb.TENSOR_KIND_ROWWISE_DATA: x.nbytes // 4,
         pb.TENSOR_KIND_ROWWISE_SCALE: x.nbytes // 32,
         pb.TENSOR_KIND_ROWWISE_AMAX: 4}
into = {kind: np.ones(size, np.uint8) for kind, size in sizes.items()}
def memory(line):
  with open("/proc/self/status") as status:
    return next(int(r.split()[1]) for r in status if r.startswith(line)) >> 10
for turn in range(3):
  before = memory("VmRSS")
  with open("/proc/self/clear_refs", "w") as peaks:
    peaks.write("5")
  engine.call("Quantize", message, [x], into)
say(memory("VmHWM") - before, memory("VmRSS") - before)
"""


def test_large_call_copies_nothing(server):
  """Sends 256 MiB and receives 72, in a separate process. The input is never
  copied, and no copy of the reply is left.
  """
  peak, after = map(int, Script(LARGE, server).end(50)[0].split())
  # At the peak gRPC holds the reply; malloc may keep some of that memory
  # afterwards.
  assert peak < 128 and after < 32, (peak, after)


NEIGHBOURS = """
import numpy as np
x = np.linspace(-4, 4, 64 * 64, dtype=np.float32).reshape(64, 64)
parts = []
for _ in range(2):
  for engine in ("grpc", "native"):
    with quantd.connect(sys.argv[1], engine=engine) as q:
      t = q.quantize(x, "nvfp4")
      parts.append(bytes(t.rowwise.codes))
      try:
        q.quantize(x[:, :63], "nvfp4")
      except quantd.Invalid:
        parts.append(parts[-1])
say(len(parts), len(set(parts)))
"""


@pytest.mark.parametrize("order", [
    ("grpc", "quantd._native"), ("quantd._native", "grpc"),
    ("torch", "grpc", "quantd._native"), ("quantd._native", "grpc", "torch")],
    ids="-".join)
def test_beside_other_copies_of_the_same_libraries(server, order):
  """grpcio and torch contain gRPC, protobuf and Abseil of their own."""
  if "torch" in order and importlib.util.find_spec("torch") is None:
    pytest.skip("TORCH IS NOT INSTALLED HERE")
  # START itself imports the engine, so the other imports come first.
  text = "import sys\n" + "".join(f"import {name}\n" for name in order) + START
  process = subprocess.run(
      [sys.executable, "-c", text + NEIGHBOURS, server], text=True,
      capture_output=True, timeout=50, check=False)
  assert (process.returncode, process.stdout.split()) == (0, ["8", "1"]), process
