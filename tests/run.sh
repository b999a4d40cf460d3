#!/usr/bin/env bash
# Installs what is missing, builds and runs the test suite on the CPU backend
# (and, where a GPU is, on CUDA).
#
#   ./tests/run.sh [--no-install] [--preset NAME] [--jobs N] [-- CTEST ARGUMENTS]
#
#   --preset NAME  default (CUDA where nvcc 13 is), cpu, cuda, asan or tsan
#   e.g. ./tests/run.sh --preset asan -- -L unit
set -euo pipefail
cd "$(dirname "$0")/.."

preset=default install=1 jobs=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    --no-install) install= ;;
    --preset) preset=${2:?--preset needs a name}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --help|-h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    --) shift; break ;;
    *) echo "run.sh: unknown option $1 (try --help)" >&2; exit 2 ;;
  esac
  shift
done

if [ -n "$install" ]; then
  ./deploy/install-deps.sh
else
  ./deploy/install-deps.sh --check
fi
# A clone elsewhere compiles the same files: let the cache know them again.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
cmake --preset "$preset"
cmake --build --preset "$preset" -j "$jobs"
# Tests that start servers and measure them do not share the machine all the
# same: tests/CMakeLists.txt.
ctest --preset "$preset" -j "$jobs" "$@"
if command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU; then
  ctest --test-dir "build/$preset" -L gpu --output-on-failure
else
  echo "gpu: no GPU on this machine, so the tests with label gpu were NOT run" \
       "(tests/gpu/bundle.sh makes a bundle for one that has)"
fi
