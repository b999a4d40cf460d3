"""Forks while a connection is open, and uses the connection in parent and children.

    forking.py ADDRESS ENGINE idle|busy|exit|before
"""

import os
import signal
import sys
import threading
import time

import numpy as np

import quantd

FORKED = 10


def in_child(function, leave=os._exit):
  """Runs a function in a forked child; returns its exit code."""
  child = os.fork()
  if child == 0:
    code = 1
    try:
      signal.alarm(10)
      code = function()
    finally:
      leave(code)
  return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(address, engine, how):
  x = np.random.default_rng(1).standard_normal((96, 160)).astype(np.float32)
  big = np.tile(x, (20, 20))
  q = quantd.connect(address, engine=engine)
  stop, wrong, calls, expected = threading.Event(), [], [], []

  def child():
    try:
      made = q.quantize(x, "nvfp4").rowwise.codes.tobytes()
      return int(bool(expected) and made != expected[0])
    except quantd.Forked as error:
      return FORKED if "spawn" in str(error) else 1

  if how == "before":
    # The parent made no call yet, so the child may make one.
    print(code := in_child(child))
    return code or child()
  expected.append(q.quantize(x, "nvfp4").rowwise.codes.tobytes())
  big_expected = q.quantize(big, "nvfp4").rowwise.codes.tobytes()

  def work():
    while not stop.is_set():
      try:
        t = q.quantize(big, "nvfp4")
        if t.rowwise.codes.tobytes() != big_expected:
          wrong.append("bytes")
        calls.append(1)
      except quantd.Error as error:
        wrong.append(error)

  busy = how == "busy"
  threads = [threading.Thread(target=work) for _ in range(2 * busy)]
  for thread in threads:
    thread.start()
  for _ in range(8):
    if busy:
      # Waits until one more call has ended, so that others are in flight. This
      # takes a while on a busy machine.
      before, until = len(calls), time.monotonic() + 5
      while len(calls) == before and time.monotonic() < until:
        time.sleep(0.01)
      if len(calls) == before:
        wrong.append("no call ended in 5 s")
    code = in_child(child, sys.exit if how == "exit" else os._exit)
    if code != FORKED:
      wrong.append(f"a child exited with {code}")
  stop.set()
  for thread in threads:
    thread.join()
  if child() != 0:
    wrong.append("the parent's own call failed")
  q.close()
  print(wrong)
  return len(wrong)


if __name__ == "__main__":
  sys.exit(main(*sys.argv[1:]))
