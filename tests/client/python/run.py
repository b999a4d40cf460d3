#!/usr/bin/env python3
"""Runs the tests of the Python package against the programs of a build.

    run.py --server FILE --quantctl FILE [ARGUMENT OF PYTEST...]

Tests the package in the source tree or, with --installed, the one installed for
this Python. Exits with 77 if Python lacks a package that the pure engine needs.
"""

import argparse
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--server", required=True)
  parser.add_argument("--quantctl", required=True)
  parser.add_argument("--installed", action="store_true")
  known, rest = parser.parse_known_args()
  for module in ("grpc", "google.protobuf", "numpy", "pytest"):
    if importlib.util.find_spec(module) is None:
      print(f"skipped: no module {module}")
      return 77
  # A shell starts background processes with SIGINT ignored, which the tests
  # would inherit.
  signal.signal(signal.SIGINT, signal.SIG_DFL)
  environment = dict(
      os.environ, QUANTD=str(pathlib.Path(known.server).resolve()),
      QUANTCTL=str(pathlib.Path(known.quantctl).resolve()),
      PYTHONDONTWRITEBYTECODE="1")
  if not known.installed:
    environment["PYTHONPATH"] = str(ROOT / "client/python")
  command = [
      sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
      f"--rootdir={HERE}", *rest
  ]
  if not any(pathlib.Path(word.split("::")[0]).exists() for word in rest):
    command.append(str(HERE))
  return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
  sys.exit(main())
