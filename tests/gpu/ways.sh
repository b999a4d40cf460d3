#!/usr/bin/env bash
# Measures the time of calls whose tensors are not sent: tensors in shared
# memory, tensors in GPU memory that is lent to a server, and calls in process.
# Each is measured with idle threads that sleep at once and with idle threads
# that poll first (--busy-poll-us), alternating in one run. Runs in a bundle,
# beside its programs:
#
#   ways.sh RESULTS.json COMMIT DATE [ROUNDS [DEVICE]]
#
# One caller quantizes bf16 to rowwise NVFP4 with RHT. A result is the median
# over ROUNDS (5) of each round's median. lent_bench measures the upper limits.
# DEVICE cpu:0 needs no GPU, and skips calls with GPU memory.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
results=${1:?no file for the results}
commit=${2:?no commit}
date=${3:?no date}
rounds=${4:-5}
device=${5:-cuda:0}

# The local CPU device has no number.
localname=${device/#cpu:0/cpu}
busy=500 # us: longer than a caller needs between two calls
work=$(mktemp -d)
servers=()
finish() {
  for pid in "${servers[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT

for poll in 0 $busy; do
  "$here/quantd" --listen "unix:$work/calls$poll" --device "$device" \
    --memory-socket "$work/memory$poll" --shared-memory-limit 2GiB \
    --busy-poll-us $poll --log-level warn &
  servers+=($!)
done
for poll in 0 $busy; do
  for _ in $(seq 200); do
    [ -S "$work/memory$poll" ] && [ -S "$work/calls$poll" ] && break
    sleep 0.1
  done
done

# Input lines of sdk_bench: bytes, callers, calls.
lines() {
  printf '%s\n' "4096 1 500" "1048576 1 200" "4194304 1 200" \
    "16777216 1 100" "67108864 1 30" "268435456 1 20" "536870912 1 20"
}
# measure WAY POLL AMAX ARGUMENT...  Adds a line for each size to $work/all.
measure() {
  local way=$1 poll=$2 amax=$3 given=()
  shift 3
  [ "$amax" = given ] && given=(--given-amax)
  lines | "$here/sdk_bench" "$@" --rht "${given[@]}" \
    --busy-poll-us $((poll * 20)) |
    sed -nE 's/.*"median_us":([0-9.e+]+).*/\1/p' >"$work/us"
  paste -d' ' <(lines | cut -d' ' -f1) "$work/us" |
    sed "s/^/$way $poll $amax /" >>"$work/all"
}

for ((round = 0; round < rounds; ++round)); do
  for amax in given found; do
    for poll in 0 $busy; do
      at=(--memory-socket "$work/memory$poll")
      measure shared $poll $amax "unix:$work/calls$poll" "${at[@]}"
      [[ $device == cuda* ]] || continue
      measure cuda $poll $amax "unix:$work/calls$poll" "${at[@]}" --gpu-memory
    done
    measure local 0 $amax "local:$localname" --in-place
    [[ $device == cuda* ]] || continue
    measure local-gpu 0 $amax "local:$device" --gpu-memory
  done
done

# Sorts by kind, then by time, and takes the middle of each kind.
sort -k1,4 -k5g "$work/all" | awk -v commit="$commit" -v date="$date" \
  -v device="$device" -v rounds="$rounds" '
  { key = $1 " " $2 " " $3 " " $4
    if (key != last) { ++n; last = key; keys[n] = key }
    us[n, ++count[n]] = $5 }
  END {
    printf "{\n \"benchmark\": \"ways.sh\",\n \"device\": \"%s\",\n", device
    printf " \"commit\": \"%s\",\n \"date\": \"%s\",\n", commit, date
    printf " \"rounds\": %d,\n \"rows\": [", rounds
    for (i = 1; i <= n; ++i) {
      split(keys[i], k, " ")
      middle = us[i, int((count[i] + 1) / 2)]
      printf "%s\n  {\"way\": \"%s\", \"busy_poll_us\": %d, \"amax\": \"%s\", " \
        "\"bytes\": %d, \"us\": %.1f}", (i > 1 ? "," : ""), k[1], k[2], k[3], k[4], middle
    }
    print "\n ]\n}"
  }' >"$results"
grep '"way"' "$results"
