#!/usr/bin/env bash
# .ci/run keeps time: on the usual machine it leaves nothing out, on one four
# times slower it ends in time, with what is never left out; and no test of ctest
# has a limit that a slow machine does not lengthen.
set -euo pipefail
cd "$(dirname "$0")/../.."
failed=0
wrong() { echo "$1"; failed=1; }

always=('Cheap checks' 'test command: build' 'test command: tests'
  'wire, ledger and door')
# plan PERCENT MISSED SECONDS LEFT: ends before SECONDS, and leaves so many out
# at least, or, for LEFT of 0, none.
plan() {
  local said left ended name
  said=$(.ci/run --plan "$1" "$2")
  ended=$(sed -n 's/^#### Done (at \([0-9]*\) s)$/\1/p' <<<"$said")
  left=$(grep -c '^SKIPPED: .*NOT TESTED' <<<"$said" || true)
  [ -n "$ended" ] && ((ended <= $3)) || wrong "$1 %, $2 missed: ends at $ended s"
  (($4 ? left >= $4 : !left)) || wrong "$1 %, $2 missed: $left left out: $said"
  for name in "${always[@]}"; do
    grep -q "^#### .*$name.* (at" <<<"$said" || wrong "$1 %, $2 missed: no $name"
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
# is WHAT WANTED GOT
is() { [ "$2" = "$3" ] || wrong "$1: expected $2, got $3"; }
pace_measured 100
is "a machine as usual" 100 "$(pace_slowness)"
pace_missed=0
is "all in the cache" "${pace_warm[build]}" "$(pace_cost build)"
pace_missed=100
is "nothing in the cache" "${pace_cold[build]}" "$(pace_cost build)"
# The first look was lucky, and the build tells.
pace_done build $((4 * pace_cold[build]))
(($(pace_slowness) > 320)) || wrong "a build at a quarter of the speed: $(pace_slowness) %"
! pace_fits fuzz 3600 || wrong "what would end late fits"
pace_fits memory 0 || wrong "what is never left out does not fit into all"
! pace_fits emulation 2800 || wrong "no time is kept for what is never left out"
# A phase that hangs is ended long before all is.
pace_measured 100
is "a bound of its own" $((3 * pace_cold[threads] + 300)) "$(pace_bound threads 0)"
is "the end for all" $((pace_end - 4000)) "$(pace_bound threads 4000)"
(($(pace_bound memory 4000) + 4000 > pace_end)) || wrong "it is cut like the others"

! git grep -nE '\bTIMEOUT [0-9]' -- '*CMakeLists.txt' ||
  wrong "limits that quantd_limit does not set"
exit $failed
