#!/usr/bin/env bash
# From a clone to a quantized tensor: installs missing packages, builds, starts
# the server on a free loopback port, quantizes a tensor file with it, prints the
# report and stops the server. With MODEL it converts a whole model to NVFP4 for
# vLLM and transformers instead, without a server.
#
#   ./deploy/quickstart.sh [FILE.safetensors | FILE.npy] [options]
#   ./deploy/quickstart.sh MODEL OUT [options]
#
#   MODEL         a directory of weights with its config.json
#   OUT           the directory to write
#   --json        print the report as JSON, and everything else on standard error
#   --no-install  do not install packages; list missing ones and stop
#   --jobs N      compile N files at a time (default: one per core)
#   --help
set -euo pipefail
cd "$(dirname "$0")/.."

file='' out='' json='' install=1 jobs=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    --json) json=--json ;;
    --no-install) install= ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --help|-h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    -*) echo "quickstart: unknown option $1 (try --help)" >&2; exit 2 ;;
    *) if [ -z "$file" ]; then file=$1; else out=$1; fi ;;
  esac
  shift
done
if [ -n "$file" ] && [ ! -r "$file" ]; then
  echo "quickstart: cannot read $file" >&2
  exit 2
fi
if [ -d "$file" ] && [ -z "$out" ]; then
  echo "quickstart: $file is a directory: also name the directory to write" >&2
  exit 2
fi
if [ -n "$out" ] && [ ! -d "$file" ]; then
  echo "quickstart: $out is only used with a model, and $file is not a directory" >&2
  exit 2
fi

# With --json, only the report goes to standard output.
exec 3>&1
[ -n "$json" ] && exec 1>&2
step() { printf '\n== %s\n' "$*"; }

step "Dependencies"
if [ -n "$install" ]; then
  ./deploy/install-deps.sh
elif ! ./deploy/install-deps.sh --check; then
  echo "quickstart: install these packages, or run without --no-install" >&2
  exit 1
fi

build=build/quickstart
mkdir -p "$build"
# CUDA code takes longest to compile and is only useful with a GPU.
cuda=OFF
if [[ $(nvidia-smi -L 2>/dev/null) == GPU* ]]; then cuda=AUTO; fi
step "Build (the first takes a few minutes; later ones seconds)"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON \
  -DQUANTD_QUICK=ON -DQUANTD_BUILD_TESTS=OFF -DQUANTD_CUDA=$cuda >"$build/configure.log" 2>&1 \
  || { tail -20 "$build/configure.log" >&2; exit 1; }
grep "CUDA backend" "$build/configure.log" ||
  echo "CUDA backend: off, nvidia-smi lists no GPU; CPU backend only"
# A model needs no server.
targets=(quantctl)
[ -d "$file" ] || targets+=(quantd)
cmake --build "$build" -j "$jobs" --target "${targets[@]}"
bin=$build

next() {
  step "Next"
  cat <<END
Convert a model without a server:  $bin/client/quantctl convert MODEL OUT --server local
Compare it with the original:      $bin/client/quantctl compare MODEL OUT
Start a server:                    cmake --build $build --target quantd && $bin/server/quantd
Use it from Python:                pip install ./client/python
Make packages for such CPUs:       (cd $build && ninja && cpack -G DEB)
END
}

if [ -d "$file" ]; then
  step "Convert"
  "$bin/client/quantctl" convert "$file" "$out" --server local $json >&3
  next
  exit
fi

step "Server"
work=$(mktemp -d)
server=
stop() {
  if [ -n "$server" ]; then
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap stop EXIT
"$bin/server/quantd" --listen 127.0.0.1:0 --port-file "$work/port" \
  --drain-delay-ms 0 >"$work/log" 2>&1 &
server=$!
for _ in $(seq 100); do
  [ -s "$work/port" ] && break
  kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
  sleep 0.1
done
[ -s "$work/port" ] || { echo "quickstart: the server did not start:" >&2
                         cat "$work/log" >&2; exit 1; }
address=$(cat "$work/port")
echo "quantd is serving on $address (pid $server)"
"$bin/client/quantctl" info --server "$address"

step "Round trip"
if [ -z "$file" ]; then
  file=$work/sample.safetensors
  "$bin/client/quantctl" sample --out "$file"
fi
"$bin/client/quantctl" roundtrip "$file" --server "$address" \
  --rht rowwise $json >&3
if [ -z "$json" ]; then
  cat <<'EOF'

SQNR is the power of the signal over that of the error, in dB. NVFP4 has 20.4 dB
for a Gaussian tensor. The tensor "outliers" is heavy-tailed. Rotation (--rht)
spreads an outlier over its block of 16. This can lower its SQNR, because the
scale of a plain block already fits the outlier. Rotation is for gradients and
activations that are multiplied afterwards, where spread errors cancel. Compare:
EOF
  "$bin/client/quantctl" roundtrip "$file" --server "$address" --rht none >&3
fi

next
