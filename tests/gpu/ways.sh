#!/usr/bin/env bash
# What a call takes where no wire is needed: tensors in shared memory, in a
# GPU's memory lent to a server, and in process; each with threads that sleep
# when they have nothing to do and with threads that look for more first
# (--busy-poll-us), in turns in one run. Runs in a bundle, beside its programs:
#
#   ways.sh RESULTS.json COMMIT DATE [ROUNDS [DEVICE]]
#
# NVFP4 rows with RHT from bf16 by one caller. The median of the rounds (5) of
# the medians of each. lent_bench has the ceilings. Without a GPU, DEVICE cpu:0
# goes all ways but those of a GPU's memory.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
results=${1:?where to write the results}
commit=${2:?of which commit}
date=${3:?when}
rounds=${4:-5}
device=${5:-cuda:0}

# CPU devices of a process have no number.
localname=${device/#cpu:0/cpu}
look=500 # us: longer than a caller needs between two calls
work=$(mktemp -d)
servers=()
finish() {
  for pid in "${servers[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT

for poll in 0 $look; do
  "$here/quantd" --listen "unix:$work/calls$poll" --device "$device" \
    --memory-socket "$work/memory$poll" --shared-memory-limit 2GiB \
    --busy-poll-us $poll --log-level warn &
  servers+=($!)
done
for poll in 0 $look; do
  for _ in $(seq 200); do
    [ -S "$work/memory$poll" ] && [ -S "$work/calls$poll" ] && break
    sleep 0.1
  done
done

# Bytes, callers, calls: sdk_bench's lines.
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
    for poll in 0 $look; do
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

# Sorted by what was measured, then by time: the middle one of each.
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
