#!/usr/bin/env bash
# Tests the wheels of deploy/release.sh in fresh virtual environments, as users
# install them. The pure wheel is also built from a source distribution.
#
#   wheel.sh [--server FILE] [--quantctl FILE] [PYTHON...]
#
# The programs are those of build/cpu by default. QUANTD_OTHER_ARCHIVES names a
# directory that client/python/native/archives.sh has filled before; filling it
# takes minutes.
#
# All tests run with the native wheel, but only some with the pure wheel, since
# the tests of the source tree cover the pure engine. Only tests that use
# PyTorch or JAX run in an environment that has them.
#
# PYTHON: interpreters to test the native wheel with. The wheel is the same for all
# from 3.11 on. Default: python3.11, python3.12 and python3.13, if installed. Exits
# with 77 if no package index is reachable to install tools. Needs the tools of
# deploy/install-deps.sh --checks.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)

server=$root/build/cpu/server/quantd quantctl=$root/build/cpu/client/quantctl
pythons=()
while [ $# -gt 0 ]; do
  case $1 in
    --server) server=$2; shift 2 ;;
    --quantctl) quantctl=$2; shift 2 ;;
    *) pythons+=("$1"); shift ;;
  esac
done
if [ ! -x "$server" ] || [ ! -x "$quantctl" ]; then
  echo "wheel.sh: no $server or no $quantctl (tests/run.sh builds them)" >&2
  exit 2
fi
if [ "${#pythons[@]}" = 0 ]; then
  for python in python3.11 python3.12 python3.13; do
    "$python" -c '' 2>/dev/null && pythons+=("$python")
  done
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "wheel.sh: $*" >&2
  exit 1
}

"${pythons[0]}" -m venv "$work/tools"
"$work/tools/bin/pip" install -q build >"$work/log" 2>&1 || {
  tail -3 "$work/log"
  echo "SKIPPED: THE WHEELS ARE NOT TESTED, the package build cannot be installed"
  exit 77
}
# The libraries in the native engine are compiled from the distribution's source
# packages.
export QUANTD_OTHER_ARCHIVES=${QUANTD_OTHER_ARCHIVES:-$work/archives}
"$root/client/python/native/archives.sh" "$QUANTD_OTHER_ARCHIVES" \
  >"$work/log" 2>&1 || {
  tail -3 "$work/log"
  echo "SKIPPED: THE WHEELS ARE NOT TESTED, the libraries' sources cannot be" \
    "downloaded"
  exit 77
}
dist=$work/dist
"$root/deploy/release.sh" --only wheel --only pure "$dist"

# test_wheel PYTHON WHEEL ENGINE [TEST_FILE...]: installs a wheel, checks its
# default engine, and runs these tests, or all.
test_wheel() {
  local python=$1 wheel=$2 engine=$3 venv
  shift 3
  venv=$(mktemp -d "$work/venv.XXXX")
  "$python" -m venv "$venv"
  "$venv/bin/pip" install -q "$wheel" pytest ml_dtypes
  [ "$("$venv/bin/python" -c 'import quantd; print(quantd.engine)')" = "$engine" ] ||
    fail "$(basename "$wheel") does not have the engine $engine"
  "$venv/bin/python" "$here/run.py" --installed --server "$server" \
    --quantctl "$quantctl" "$@"
}

# check_native WHEEL: checks that its module only needs the system's C and C++
# libraries, exports no linked symbols, and comes with the licences.
check_native() {
  local inside module needs shown licences file
  inside=$(mktemp -d "$work/inside.XXXX")
  "${pythons[0]}" -m zipfile -e "$1" "$inside"
  module=$(echo "$inside"/quantd/_native*.so)
  needs=$(objdump -p "$module" | awk '/NEEDED/ { print $2 }' |
    grep -Ev '^(libc|libm|libstdc\+\+|libgcc_s|ld-linux.*)\.so' || true)
  [ -z "$needs" ] || fail "$module needs $needs"
  shown=$(nm -D --defined-only "$module" | awk '{ print $3 }')
  [ "$shown" = PyInit__native ] || fail "$module exports $shown"
  licences=$(echo "$inside"/quantd-*.dist-info/licenses)
  for file in "$licences"/{LICENSE,NOTICE,libgrpc-dev,libprotobuf-dev} \
    "$licences"/{libabsl-dev,nanobind} "$inside"/quantd/{_native,quantd_pb2}.pyi \
    "$inside"/quantd-*.data/scripts/{quantctl,quantd}; do
    [ -s "$file" ] || fail "$1 does not contain $file"
  done
}

native=$(find "$dist" -name '*-cp311-abi3-*manylinux*.whl')
check_native "$native"

# A source distribution contains everything for both wheels. By default it
# builds the pure one.
git clone -q "$root" "$work/clone"
"$work/tools/bin/python" -m build --outdir "$work/source" \
  "$work/clone/client/python" >"$work/log" 2>&1 ||
  { tail -40 "$work/log"; fail "a source distribution and its wheel could not be built"; }
tar -tzf "$work"/source/quantd-*.tar.gz >"$work/listed"
for name in native/engine.cc tree/{server/main.cc,include/quantd/client.h,deploy/notices.sh}; do
  grep -q "/$name\$" "$work/listed" ||
    fail "the source distribution has no $name"
done

for python in "${pythons[@]}"; do
  test_wheel "$python" "$native" native
done
test_wheel "${pythons[0]}" "$work"/source/*-py3-none-any.whl grpc \
  "$here"/test_{bytes,failures,tensors,bands}.py

# The reference pages, types, style, and tests that need other libraries.
"$work/tools/bin/pip" install -q pdoc numpy grpcio protobuf mypy ruff \
  types-protobuf pytest ml_dtypes opentelemetry-sdk tqdm
PYTHON=$work/tools/bin/python "$here/docs.sh" "$work/docs" || [ $? = 77 ]
"$work/tools/bin/python" "$here/run.py" --server "$server" \
  --quantctl "$quantctl" "$here"/test_{pages,newcomers,progress}.py

# With PyTorch and JAX, tests also use their arrays. grpcio, PyTorch and the
# native engine then have three copies of the same libraries in one process.
libraries=$root/build/pipelines/bin/python
if "$libraries" -c 'import jax, torch' 2>/dev/null; then
  "$libraries" -m pip install -q --no-deps --target "$work/beside" "$native" \
    nanobind-backend
  # The tests of arguments run the wheel's programs, which pip does not put into
  # PATH with --target.
  mapfile -t files < <(grep -lE '\b(torch|jax)\b' "$here"/test_*.py |
    grep -v test_arguments)
  PYTHONPATH=$work/beside "$libraries" "$here/run.py" --installed \
    --server "$server" --quantctl "$quantctl" "${files[@]}"
else
  echo "SKIPPED: ARRAYS OF PYTORCH AND JAX, which pipelines/run.sh installs"
fi
