#!/usr/bin/env bash
# Installs missing packages, builds, and runs the tests, fast ones first: on the
# CPU backend and, where there is a GPU, on CUDA. Prints first what it will do.
#
#   ./tests/run.sh [--no-install] [--preset NAME] [--jobs N] [--full]
#                  [--slowness N] [--build] [-- CTEST ARGUMENTS]
#
#   --preset NAME  cpu, default (with CUDA if there is an nvcc 13), cuda, asan or
#                  tsan; by default: default if there is a GPU, else cpu
#   --full         also run the tests with label long, for a release
#   --slowness N   for a machine N times slower than usual: tests may take N times
#                  as long; from 2 on, only part of the contract is tested, tests
#                  with label slow are skipped, and failed tests run once more
#   --build        build only
#   For example: ./tests/run.sh --preset asan -- -L unit
set -euo pipefail
cd "$(dirname "$0")/.."

gpu=''
if [[ $(nvidia-smi -L 2>/dev/null) == GPU* ]]; then gpu=1; fi
preset=${gpu:+default} preset=${preset:-cpu} install=1 jobs=$(nproc) full=''
slowness=1 only_build=''
while [ $# -gt 0 ]; do
  case $1 in
    --no-install) install='' ;;
    --preset) preset=${2:?--preset needs a name}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --full) full=1 ;;
    --slowness) slowness=${2:?--slowness needs a number}; shift ;;
    --build) only_build=1 ;;
    --help|-h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    --) shift; break ;;
    *) echo "run.sh: unknown option $1 (try --help)" >&2; exit 2 ;;
  esac
  shift
done

part=''
if ((slowness > 1)); then
  part=${QUANTD_CONTRACT_STRIDE:-29}
  set -- --repeat until-pass:2 "$@"
fi

# What it will do. Minutes of compile and compare are for one core of the machine
# in CONTRIBUTING.md; tests that run alone take `alone` more.
compile=18 compare=5 alone=5
packages="checked only" long="not run (--full runs them)" gpus="not run: no GPU here"
tests="unit, contract, rpc, slow: about $((compare / jobs + alone)) min"
[ -z "$install" ] || packages="installed where missing"
[ -z "$full" ] || long="about 6 min"
[ -z "$gpu" ] || gpus="run"
[ -z "$part" ] || tests="unit, one in $part of contract, rpc (--slowness)"
[ -z "$only_build" ] || tests="not run (--build)" long="not run" gpus="not run"
[[ $preset != [at]san ]] || compile=$((2 * compile))
build="about $((compile / jobs + 1)) min without a compiler cache"
[ "$preset" != cuda ] || build="many times that of cpu (five GPU targets)"
[ ! -e "build/$preset/build.ninja" ] || build="only what changed"
cat <<END
tests/run.sh: preset $preset, $jobs at a time
  packages  $packages
  build     into build/$preset: $build
  tests     $tests
  long      $long
  gpu       $gpus
END

if [ -n "$install" ]; then
  ./deploy/install-deps.sh
else
  ./deploy/install-deps.sh --check
fi
# A clone in another folder compiles the same files: this lets the cache find
# them.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
cmake --preset "$preset" -DQUANTD_TEST_SLOWNESS="$slowness"
cmake --build --preset "$preset" -j "$jobs"
[ -z "$only_build" ] || exit 0

# run WHAT CTEST ARGUMENTS...: in parallel, but tests that start servers and
# measure them run alone (tests/CMakeLists.txt).
run() {
  printf '\n== %s tests (at %d s)\n' "$1" "$SECONDS"
  ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure "${@:2}"
}
run "Unit" -L '^unit$' "$@"
QUANTD_CONTRACT_STRIDE=${part:-${QUANTD_CONTRACT_STRIDE:-1}} \
  run "Contract" -L '^contract$' "$@"
run "Rpc" -LE '^(unit|contract|slow|long|gpu)$' "$@"
if [ -z "$part" ]; then
  run "Slow" -L '^slow$' -LE '^(long|gpu)$' "$@"
else
  echo "SKIPPED: tests with label slow, and all of the contract but one" \
    "combination in $part: NOT TESTED, this machine is $slowness times slower"
fi
if [ -n "$full" ]; then run "Long" -L '^long$' "$@"; fi
if [ -n "$gpu" ]; then
  ctest --test-dir "build/$preset" -L gpu --output-on-failure
else
  echo "gpu: no GPU on this machine, so the tests with label gpu were NOT run" \
       "(tests/gpu/bundle.sh packs them for a machine that has one)"
fi
