#!/usr/bin/env bash
# Runs the Python package's pipelines in real Ray, PySpark and PyTorch.
#
#   tests/client/python/pipelines/run.sh [--offline] [ARGUMENT OF PYTEST...]
#
# The script installs them in the versions of lock.txt into build/pipelines, a
# virtual environment. Spark needs Java 17. Tests of missing packages are reported
# and skipped. Two servers of the build run on loopback. Takes about 3 minutes on
# two cores.
#
#   --offline   install nothing and use the environment as it is
#   PYTHON      an interpreter that has the packages, instead of build/pipelines
#   QUANTD, QUANTCTL   the programs (default: those of build/cpu)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../.." && pwd)
made=$root/build/pipelines
offline=''
if [ "${1:-}" = --offline ]; then
  offline=1
  shift
fi
if [ -z "${PYTHON:-}" ]; then
  PYTHON=$made/bin/python
  if [ -z "$offline" ] && ! cmp -s "$here/lock.txt" "$made/installed.txt"; then
    echo "installing $(wc -l < "$here/lock.txt") packages into build/pipelines"
    rm -rf "$made"
    python3 -m venv "$made"
    # --no-compile: Python compiles modules on import. Compiling all takes half
    # a minute.
    "$made/bin/pip" install --quiet --no-compile --no-deps -r "$here/lock.txt" || {
      rm -rf "$made"
      echo "SKIPPED: RAY, SPARK AND PYTORCH ARE NOT TESTED, they cannot be" \
        "installed here" >&2
      exit 77
    }
    cp "$here/lock.txt" "$made/installed.txt"
  fi
fi
[ -x "$PYTHON" ] || { echo "SKIPPED: $PYTHON does not exist, and --offline prevents its installation" >&2; exit 77; }
command -v java > /dev/null || echo "SKIPPED: SPARK IS NOT TESTED, no java" >&2
export QUANTD_TEST_SECONDS=${QUANTD_TEST_SECONDS:-150}
# With fork support, grpcio aborts one in a hundred subprocesses of PySpark.
GRPC_ENABLE_FORK_SUPPORT=0 exec "$PYTHON" "$here/../run.py" \
  --server "${QUANTD:-$root/build/cpu/server/quantd}" \
  --quantctl "${QUANTCTL:-$root/build/cpu/client/quantctl}" \
  -rs "$@" "$here"
