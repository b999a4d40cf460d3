#!/usr/bin/env bash
# Runs every GPU test and benchmark of a bundle (tests/gpu/bundle.sh) and writes
# the results as JSON, to be committed under tests/bench/results/:
#
#   run.sh RESULTS_DIR [PART...]
#
# Parts, all of them by default: contract agreement service bench lent ways rpc
# cpu. QUANTD_GPU_ELEMENTS: elements to compare with the CPU (default 1.2e10).
#
# Never changes clocks or modes of the GPU. Exits with 0 if all parts passed,
# with 77 without a GPU, else with 1. gpu.json says passed, skipped or failed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
results=${1:?no folder for the results}
shift
parts=("$@")
((${#parts[@]})) || parts=(contract agreement service bench lent ways rpc cpu)
mkdir -p "$results"
results=$(cd "$results" && pwd)
commit=$(cat "$here/COMMIT")
date=$(date -u +%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d)
servers=()
summary=()

finish() {
  for pid in "${servers[@]}"; do kill -TERM "$pid" 2>/dev/null; done
  rm -rf "$work"
}
trap finish EXIT

# JSON text of a string.
quote() { printf '"%s"' "$(printf '%s' "$1" | sed 's/["\\]/\\&/g')"; }

write_summary() { # state
  local device driver
  device=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null |
    head -1)
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader \
    2>/dev/null | head -1)
  {
    printf '{\n "state": "%s",\n "commit": %s,\n "date": "%s",\n' \
      "$1" "$(quote "$commit")" "$date"
    printf ' "device": %s,\n "driver": %s,\n "parts": {' \
      "$(quote "$device")" "$(quote "$driver")"
    local first=1 line
    for line in "${summary[@]}"; do
      ((first)) || printf ','
      first=0
      printf '\n  %s' "$line"
    done
    printf '\n }\n}\n'
  } >"$results/gpu.json"
}

# step NAME COMMAND...  Runs a command, keeps its output, records its result.
failed=0
step() {
  local name=$1 start=$SECONDS rc=0
  shift
  echo "=== $name"
  "$@" >"$work/$name.log" 2>&1 || rc=$?
  local state=passed
  if ((rc != 0)); then
    state="failed ($rc)"
    failed=1
    grep -A8 -m 20 ': Failure$' "$work/$name.log"
  fi
  tail -25 "$work/$name.log"
  # A skipped test fails the run, because it has tested nothing.
  if grep -q '^\[  SKIPPED \]' "$work/$name.log"; then
    state=skipped
    failed=1
  fi
  echo "=== $name: $state, $((SECONDS - start)) s"
  # The contract prints "... 12 elements", the agreement "elements":12.
  local compared
  compared=$(sed -nE '/^\[ COMPARED \]/s/.*(, |"elements":)([0-9]+)( elements|[.,]).*/\2/p' \
    "$work/$name.log" | awk '{s += $1} END {printf "%d", s}')
  summary+=("$(quote "$name"): {\"state\": $(quote "$state"), \
\"seconds\": $((SECONDS - start)), \"elements\": $compared}")
}

if ! nvidia-smi -L >"$work/gpus" 2>&1 || ! grep -q '^GPU' "$work/gpus"; then
  echo "SKIPPED: this machine has no GPU, nothing was tested" >&2
  write_summary skipped
  exit 77
fi
cat "$work/gpus"

contract() {
  step golden "$here/golden_test" --gtest_filter='*cuda*'
  step contract shards
  step local_memory "$here/local_memory_test"
  step cuda_memory "$here/cuda_memory_test" --gtest_filter=-*OfAnotherGpu*
  if (($(grep -c '^GPU' "$work/gpus") > 1)); then
    step cuda_peers "$here/cuda_memory_test" --gtest_filter=*OfAnotherGpu*
  fi
}
# Runs the contract on every device of the machine, in several processes.
shards() {
  local shards=8 i rc=0 pids=()
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i \
      "$here/contract_test" >"$work/shard.$i" 2>&1 &
    pids+=($!)
  done
  for i in "${!pids[@]}"; do
    wait "${pids[$i]}" || rc=1
    cat "$work/shard.$i"
  done
  return $rc
}

agreement() {
  QUANTD_RESULTS_DIR=$results step agreement "$here/gpu_contract_test"
}

# Requests through the real server must give the same files with CUDA and with
# the CPU.
serve() { # DEVICE
  local port_file=$work/port-${1%:*}
  "$here/quantd" --device "$1" --listen 127.0.0.1:0 --port-file "$port_file" \
    --log-level warn &
  servers+=($!)
  for _ in $(seq 200); do
    [ -s "$port_file" ] && return 0
    sleep 0.1
  done
  echo "quantd --device $1 did not start"
  return 1
}
# ctl DEVICE ARGUMENTS...
ctl() {
  local port
  port=$(cat "$work/port-$1")
  shift
  "$here/quantctl" "$1" --server "127.0.0.1:${port##*:}" "${@:2}"
}
same_bytes() {
  "$here/quantctl" sample --out "$work/x.safetensors" --rows 4100 --cols 4096 &&
    serve cuda:0 && serve cpu:0 || return 1
  local device options usage
  while read -r options; do
    for device in cuda cpu; do
      # shellcheck disable=SC2086
      ctl "$device" quantize "$work/x.safetensors" $options \
        -o "$work/$device.q.safetensors" || return 1
      usage=rowwise
      [[ $options == *both* ]] && usage=columnwise
      ctl "$device" dequantize "$work/$device.q.safetensors" --usage $usage \
        -o "$work/$device.d.safetensors" || return 1
    done
    cmp "$work/cuda.q.safetensors" "$work/cpu.q.safetensors" || return 1
    cmp "$work/cuda.d.safetensors" "$work/cpu.d.safetensors" || return 1
    echo "same bytes: quantize $options, dequantize $usage"
  done <<<"--usage rowwise
--usage rowwise --rht rowwise --sign-mask 0x1234
--usage both
--usage both --rht columnwise
--usage both --rht both --non-finite propagate"
}
service() { step service same_bytes; }

bench() {
  step gpu_bench "$here/gpu_bench" "$results/gpu_bench.json" "$commit" "$date"
}

lent() {
  step lent_bench "$here/lent_bench" "$results/lent_bench.json" "$commit" \
    "$date"
}

ways() {
  step ways "$here/ways.sh" "$results/ways.json" "$commit" "$date"
}

rpc() {
  step rpc_bench "$here/rpc_bench" --quantd "$here/quantd" \
    --device cuda:0 --json "$results/rpc_bench_cuda.json"
}

# Measures the CPU backend on all cores of this host, and memcpy.
cpu() {
  step cpu_bench "$here/cpu_bench" --mib 256 --runs 7 --threads 0 --isa best \
    --json "$results/cpu_bench.json" --commit "$commit" --date "$date" \
    --host "$(sed -n 's/^model name[^:]*: //p;T;q' /proc/cpuinfo), $(nproc) cores"
}

for part in "${parts[@]}"; do
  case $part in
    contract | agreement | service | bench | lent | ways | rpc | cpu) "$part" ;;
    *)
      echo "run.sh: unknown part '$part'" >&2
      exit 2
      ;;
  esac
done
if ((failed)); then
  write_summary failed
  exit 1
fi
write_summary passed
