"""`python -m quantd` runs the server of a native wheel.

  python -m quantd --version
  python -m quantd --listen 127.0.0.1:50151
  python -m quantd calibrate MODEL --data FILE --out amax.json
  python -m quantd evaluate MODEL QUANTIZED --data FILE

The arguments are those of the program `quantd`; `--help` lists them. After
`calibrate`, they are those of `quantd.calibration_command`, and after
`evaluate` those of `quantd.evaluation_command`.
"""

import importlib.metadata
import os
import sys

import quantd
from quantd import calibration_command, evaluation_command
from quantd.version import version

_REMEDY = (
  "quantd: this is the pure Python package, which has no server: install the "
  "native wheel, or build it: QUANTD_NATIVE=1 pip install SOURCE"
)


def main() -> None:
  """Runs the server, prints the version, calibrates or evaluates."""
  if sys.argv[1:] == ["--version"]:
    print(f"quantd {version()}, engine {quantd.engine}")
    return
  if sys.argv[1:2] == ["calibrate"]:
    calibration_command.main(sys.argv[2:])
    return
  if sys.argv[1:2] == ["evaluate"]:
    evaluation_command.main(sys.argv[2:])
    return
  try:
    files = importlib.metadata.files("quantd") or []
  except importlib.metadata.PackageNotFoundError:
    files = []
  for file in files:
    if file.name == "quantd" and file.parent.name == "bin":
      program = os.fspath(file.locate())
      os.execv(program, [program, *sys.argv[1:]])
  sys.exit(_REMEDY)


if __name__ == "__main__":
  main()
