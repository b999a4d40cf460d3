# shellcheck shell=bash disable=SC2034
# Decides which phases of .ci/run fit into its time: how long each takes on the
# usual machine, how much slower this machine is, and what fits before the
# deadline. Only arithmetic, in seconds and percent; the caller reads the clock.

pace_deadline=3900  # phases that would end later are skipped
pace_end=4080       # an optional phase still running is stopped
pace_last=5100      # any phase is stopped: CI ends the job soon after

# Name, seconds without a compiler cache, seconds with a warm one, whether it is
# never skipped, title. The phases of the two lanes run in parallel.
pace_table='
tools        5   5 always   Tools
checks       5   5 always   Cheap checks
build      500  60 always   The README test command: build
tests      560 560 optional The README test command: tests
part       190 190 always   The README test command: tests, in part
memory     230  30 always   Address sanitizer: wire, gate and door
emulation  480 360 optional CUDA kernels, emulated
sanitizers 380 190 optional Address and undefined behaviour sanitizers
cuda       180  20 optional Every CUDA target
fuzz       180 110 optional Fuzzing
threads    160  60 optional Thread sanitizer: CPU backend and block pool
manifests   10  10 optional Kubernetes manifests
packages    35  35 optional Debian packages
images     200 200 optional Images and compose
wheels     450 260 optional Python: wheels
pipelines  240 240 optional Python: pipelines
'
declare -A pace_cold=() pace_warm=() pace_always=() pace_title=()
while read -r name cold warm always title; do
  [ -n "$name" ] || continue
  pace_cold[$name]=$cold pace_warm[$name]=$warm pace_title[$name]=$title
  [ "$always" != always ] || pace_always[$name]=1
done <<<"$pace_table"

pace_missed=100             # percent of the compilations that were not cached
pace_took=1 pace_expected=1  # seconds so far, here and on the usual machine

# pace_cost NAME: seconds on the usual machine, with this state of the cache.
pace_cost() {
  echo $((pace_warm[$1] +
    (pace_cold[$1] - pace_warm[$1]) * pace_missed / 100))
}
# pace_measured PERCENT: a measurement took this long, relative to the usual
# machine. It counts as much as 90 seconds of phases.
pace_measured() { pace_took=$((90 * $1 / 100)) pace_expected=90; }
# pace_slowness: how long phases take so far, in percent of the usual machine.
pace_slowness() { echo $((100 * pace_took / pace_expected)); }
# pace_done NAME SECONDS
pace_done() {
  pace_took=$((pace_took + $2))
  pace_expected=$((pace_expected + $(pace_cost "$1")))
  unset "pace_always[$1]"
}
# pace_fits NAME NOW: whether it ends before the deadline, with all phases that
# are never skipped.
pace_fits() {
  local rest name
  rest=$(pace_cost "$1")
  for name in "${!pace_always[@]}"; do
    [ "$name" = "$1" ] || rest=$((rest + $(pace_cost "$name")))
  done
  (($2 + rest * $(pace_slowness) / 100 <= pace_deadline))
}
# pace_is_slow: whether time limits and measured times mean little on this machine.
pace_is_slow() { (($(pace_slowness) >= 180)); }
# pace_bound NAME NOW: the seconds after which a phase counts as hanging: three
# times what is expected plus five minutes, but not beyond the end.
pace_bound() {
  local slowness bound end=$pace_end
  slowness=$(pace_slowness)
  ((slowness >= 100)) || slowness=100
  bound=$((3 * $(pace_cost "$1") * slowness / 100 + 300))
  [ -z "${pace_always[$1]:-}" ] || end=$pace_last
  ((bound <= end - $2)) || bound=$((end - $2))
  ((bound >= 1)) || bound=1
  echo $bound
}
