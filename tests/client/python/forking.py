"""Forks while a connection is open, and uses it in parent and children.

    forking.py ADDRESS ENGINE idle|busy|bands|apart
"""

import os
import pathlib
import signal
import sys
import threading
import time

import numpy as np

import quantd

FORKED = 10


def in_child(function):
  """What a forked child makes of it: its exit code."""
  child = os.fork()
  if child == 0:
    code = 1
    try:
      signal.alarm(10)
      code = function()
    finally:
      os._exit(code)
  return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def watched():
  """How many descriptors the epoll sets of this process watch."""
  count = 0
  for info in pathlib.Path("/proc/self/fdinfo").iterdir():
    try:
      count += info.read_text().count("tfd:")
    except OSError:
      continue  # that of the listing itself
  return count


def apart(address, engine):
  """Whether what a child opens stays out of the parent's epoll sets."""
  x = np.ones((16, 16), np.float32)
  q = quantd.connect(address, engine=engine)
  q.quantize(x, "nvfp4")
  (told, tell), (ended, end) = os.pipe(), os.pipe()
  child = os.fork()
  if child == 0:
    signal.alarm(10)
    q.quantize(x, "nvfp4")
    os.write(tell, b"x")
    os.read(ended, 1)
    os._exit(0)
  os.close(tell)
  called = os.read(told, 1)
  during = watched()
  os.write(end, b"x")
  os.waitpid(child, 0)
  after = watched()
  print(called, during, after)
  return int(called != b"x" or during != after)


def main(address, engine, how):
  if how == "apart":
    return apart(address, engine)
  x = np.random.default_rng(1).standard_normal((96, 160)).astype(np.float32)
  big = np.tile(x, (20, 20))
  busy = how in ("busy", "bands")
  q = quantd.connect(
      address, engine=engine, band_bytes=(how == "bands") << 20)
  expected = q.quantize(x, "nvfp4").rowwise.codes.tobytes()
  big_expected = q.quantize(big, "nvfp4").rowwise.codes.tobytes()
  stop, wrong, calls = threading.Event(), [], []

  def child():
    try:
      return int(q.quantize(x, "nvfp4").rowwise.codes.tobytes() != expected)
    except quantd.Forked:
      return FORKED

  def work():
    while not stop.is_set():
      try:
        t = q.quantize(big, "nvfp4")
        if t.rowwise.codes.tobytes() != big_expected:
          wrong.append("bytes")
        calls.append(1)
      except quantd.Error as error:
        wrong.append(error)

  threads = [threading.Thread(target=work) for _ in range(2 * busy)]
  for thread in threads:
    thread.start()
  want = 0 if engine == "grpc" else FORKED
  for _ in range(8):
    if busy:
      # A machine with other work takes its time: a further call has been taken.
      before, until = len(calls), time.monotonic() + 5
      while len(calls) == before and time.monotonic() < until:
        time.sleep(0.01)
      if len(calls) == before:
        wrong.append("no calls were under way")
    code = in_child(child)
    if code != want:
      wrong.append(f"a child gave {code}")
  stop.set()
  for thread in threads:
    thread.join()
  if child() != 0:
    wrong.append("the parent")
  print(wrong)
  return len(wrong)


if __name__ == "__main__":
  sys.exit(main(*sys.argv[1:]))
