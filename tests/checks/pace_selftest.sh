#!/usr/bin/env bash
# .ci/run respects its time limit. It skips nothing on the usual machine. On a
# machine four times slower it ends in time, and still runs the phases that are
# never skipped. A failing phase of either lane fails the run, and missing tools
# are named. All time limits of ctest grow on a slow machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
wrong() { echo "$1"; failed=1; }

always=('Cheap checks' 'test command: build' 'test command: tests'
  'wire, gate and door')
# plan PERCENT MISSED SECONDS LEFT: on a machine that takes PERCENT of the usual
# time, with MISSED percent of the compilations not in the cache, the plan must
# end within SECONDS and skip at least LEFT phases, or none if LEFT is 0.
plan() {
  local said left ended name
  said=$(.ci/run --plan "$1" "$2")
  ended=$(sed -n 's/^#### Done (at \([0-9]*\) s)$/\1/p' <<<"$said")
  left=$(grep -c '^SKIPPED: .*NOT TESTED' <<<"$said" || true)
  [ -n "$ended" ] && ((ended <= $3)) || wrong "$1 %, $2 missed: ends at $ended s"
  (($4 ? left >= $4 : !left)) || wrong "$1 %, $2 missed: $left phases are skipped: $said"
  for name in "${always[@]}"; do
    grep -q "^#### .*$name.* (at" <<<"$said" || wrong "$1 %, $2 missed: $name does not run"
  done
}
plan 60 100 1800 0
plan 100 100 2700 0
plan 100 0 2000 0
plan 130 100 3900 0
plan 200 100 4200 2
plan 400 100 4200 6
plan 400 0 4200 1

. tests/pace.sh
# is DESCRIPTION WANTED GOT: compares two values.
is() { [ "$2" = "$3" ] || wrong "$1: expected $2, got $3"; }
pace_measured 100
is "the usual machine" 100 "$(pace_slowness)"
pace_missed=0
is "all in the cache" "${pace_warm[build]}" "$(pace_cost build)"
pace_missed=100
is "nothing in the cache" "${pace_cold[build]}" "$(pace_cost build)"
# The first measurement was too fast. The build's time corrects it.
pace_done build $((4 * pace_cold[build]))
(($(pace_slowness) > 320)) || wrong "after a build at a quarter of the speed: $(pace_slowness) %"
! pace_fits fuzz 3600 || wrong "a phase that would end too late fits"
pace_fits memory 0 || wrong "a phase that is never skipped does not fit"
! pace_fits emulation 2800 || wrong "no time is reserved for phases that are never skipped"
# A phase that hangs is stopped long before the whole run must end.
pace_measured 100
is "the limit of one phase" $((3 * pace_cold[threads] + 300)) "$(pace_bound threads 0)"
is "the limit near the end" $((pace_end - 4000)) "$(pace_bound threads 4000)"
(($(pace_bound memory 4000) + 4000 > pace_end)) || wrong "a phase that is never skipped is cut short"

# Scripts that do nothing replace those that .ci/run calls.
mkdir -p "$work/.ci" "$work/tests" "$work/bin"
cp "$root/.ci/run" "$work/.ci/"
cp "$root/tests/pace.sh" "$work/tests/"
for script in deploy/install-deps.sh deploy/integration.sh tests/checks.sh \
  tests/run.sh tests/deploy/{kubernetes,promtool,packages}.sh \
  tests/emulation/run.sh tests/fuzz/run.sh tests/client/python/wheel.sh \
  tests/client/python/pipelines/run.sh bin/{c++,cmake,ctest,nvcc}; do
  mkdir -p "$work/${script%/*}"
  printf '#!/bin/sh\necho "called: %s $*"\n' "$script" >"$work/$script"
  chmod +x "$work/$script"
done
# run CODE SCRIPT LINE END: .ci/run exits with CODE and prints LINE if SCRIPT
# exits with END.
run() {
  local code=0 before
  before=$(cat "$work/$2")
  echo "exit $4" >>"$work/$2"
  PATH=$work/bin:$PATH "$work/.ci/run" >"$work/said" 2>&1 || code=$?
  echo "$before" >"$work/$2"
  [ $code = "$1" ] && grep -q "$3" "$work/said" &&
    ! grep -E '\.(sh|ci/run): line [0-9]+:' "$work/said" ||
    { wrong "$2 exits with $4: .ci/run exits with $code, not $1, or no line '$3'"; cat "$work/said"; }
}
run 0 tests/run.sh '^called: tests/client/python/wheel.sh python3' 0
run 0 deploy/integration.sh '^SKIPPED: IMAGES AND COMPOSE, NOT TESTED: a required' 77
run 1 tests/checks.sh '^FAILED: Cheap checks' 1
run 1 tests/emulation/run.sh '^FAILED: CUDA kernels, emulated' 1
run 1 tests/client/python/wheel.sh '^FAILED: Python: wheels' 1
# The wheels' script hangs in the second lane.
echo 'sleep 60' >>"$work/tests/client/python/wheel.sh"
sed -i "s/^wheels .* optional/wheels -99 -99 optional/" "$work/tests/pace.sh"
run 1 tests/client/python/wheel.sh '^HANGS: Python: wheels' 0

! git grep -nE '\bTIMEOUT [0-9]' -- '*CMakeLists.txt' ||
  wrong "time limits that quantd_limit does not set"
exit $failed
