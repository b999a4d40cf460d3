#!/usr/bin/env bash
# Builds the reference pages of the Python package with pdoc, and those of the C++
# client with Doxygen. Any warning is an error.
#
#   tests/client/python/docs.sh [OUT]
#
# Writes OUT/python and OUT/cpp (default build/docs). PYTHON names an interpreter
# with pdoc, numpy, grpcio and protobuf; otherwise the script installs them into a
# virtual environment. If tools are missing, it prints a message and exits with 77.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
out=$(realpath -m "${1:-$root/build/docs}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skipped=0
skip() {
  echo "SKIPPED: $1" >&2
  skipped=77
}

if [ -z "${PYTHON:-}" ]; then
  PYTHON=$work/venv/bin/python
  python3 -m venv "$work/venv"
  "$PYTHON" -m pip install -q pdoc numpy grpcio protobuf 2>"$work/log" ||
    { tail -3 "$work/log"; PYTHON=; }
fi
if [ -z "$PYTHON" ]; then
  skip "THE PAGES OF THE PYTHON PACKAGE, pdoc cannot be installed here"
else
  PYTHONPATH=$root/client/python PYTHONDONTWRITEBYTECODE=1 \
    "$PYTHON" -W error - "$out/python" <<'END'
import pathlib
import sys
import warnings

import pdoc
import quantd

# A TypedDict does not record which base a key comes from.
warnings.filterwarnings("ignore", "Cannot determine where .* is taken from")

# Loads the names that are imported on first use, for pdoc.
for name in quantd.__all__:
  setattr(quantd, name, getattr(quantd, name))
pdoc.render.configure(docformat="google", show_source=False)
pages = ["quantd", "quantd.aio", "quantd.hadamard", "quantd.options",
         "quantd.results", "quantd.errors", "quantd.engines.engine",
         "quantd.engines.native_engine", "quantd.calls.call_options",
         "quantd.conversion", "quantd.columns"]
try:
  import quantd._native  # noqa: F401
except ImportError:
  pages.remove("quantd.engines.native_engine")
pdoc.pdoc(*pages, output_directory=pathlib.Path(sys.argv[1]))
END
fi

if ! command -v doxygen >/dev/null; then
  skip "THE PAGES OF THE C++ CLIENT, doxygen is not installed"
else
  mkdir -p "$out"
  (cd "$root" && cat client/Doxyfile && echo "OUTPUT_DIRECTORY = $out") |
    (cd "$root" && doxygen -)
fi
exit $skipped
