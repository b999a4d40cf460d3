#!/usr/bin/env bash
# Tests CUDA's kernels without a GPU. Builds the preset "emulated" as sm_90 and
# compares its device cuda:0 with the golden vectors and a part of the contract.
# Also tests a server to which memory and events of emulated GPUs are lent.
# Builds the preset again as sm_100a and as sm_120a and runs a part of the
# contract in another order of threads.
#
#   tests/emulation/run.sh [STRIDE [faults [WORD...]]]
#
# Runs every STRIDE-th combination of the contract (default 199). With "faults"
# it also checks that planted faults are found, which takes half a minute for
# each. WORDs select faults of sm_90 whose names contain one of them. Without
# WORDs it also compares conversions of sm_100a for all 2^32 numbers.
#
# Exits with 77 if the CUDA toolkit's headers are missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
stride=${1:-199}

if ! ls "${CUDA_HOME:-/usr/local/cuda}/include/cuda_runtime_api.h" \
  /usr/include/cuda_runtime_api.h >/dev/null 2>&1 &&
  [ ! -e /usr/local/cuda/include/cuda_runtime_api.h ]; then
  echo "SKIPPED: the CUDA toolkit's headers are missing" >&2
  exit 77
fi
# Builds the TARGETs for __CUDA_ARCH__ ARCH, with KIB of shared memory for a CTA.
build() { # JOBS FOLDER ARCH KIB TARGET...
  cmake --preset emulated -B "$2" -DQUANTD_EMULATED_ARCH="$3" \
    -DQUANTD_EMULATED_SHARED_KIB="$4" >/dev/null
  cmake --build "$2" -j "$1" --target "${@:5}"
}
# Runs every STRIDE-th combination of the contract. SEED orders threads.
contract() { # FOLDER STRIDE SEED MULTIPROCESSORS FILTER
  echo "contract in $1: one of $2 combinations, order of threads $3," \
    "multiprocessors: $4"
  QUANTD_CONTRACT_STRIDE=$2 QUANTD_EMULATION_SEED=$3 \
    QUANTD_EMULATION_MULTIPROCESSORS=$4 \
    "$1/tests/kernels/contract_test" --gtest_brief=1 \
    --gtest_filter="DecodingContract.*:FormatsContract.*:NearTiesContract.*:ProfilesContract.*:$5"
}
# Blackwell's GPUs, which convert to E2M1 by instructions of their own. Their
# runs have slow warps and many tiles for each team, but not the longest tests.
blackwell() { # [STRIDE [faults [WORD...]]]
  local target arch kib times folder
  for target in 1000,227,1 1200,99,3; do
    IFS=, read -r arch kib times <<<"$target"
    folder=build/emulated-$arch
    build 1 "$folder" "$arch" "$kib" contract_test gpu_contract_test
    QUANTD_CONTRACT_STRIDE=$((stride * times)) \
      "$folder/tests/kernels/gpu_contract_test" --gtest_brief=1 \
      --gtest_filter='GpuConversionsTest.*'
    contract "$folder" $((stride * times)) 1 1 \
      '-*Large*:*LongRow*:*AroundPowers*:*Given*'
  done
  [ $# = 2 ] || return 0
  folder=build/emulated-1000
  "$folder/tests/kernels/gpu_contract_test" --gtest_brief=1 \
    --gtest_filter='GpuConversionsTest.*'
  tests/emulation/faults.py "$folder"
}

hopper=build/emulated
build "$(nproc)" $hopper 900 227 golden_test contract_test gpu_contract_test \
  gpu_door_test
# Runs beside the tests of sm_90, which use one core.
blackwell "$@" >$hopper/blackwell.log 2>&1 &
trap wait EXIT
tests=$hopper/tests/kernels
$hopper/tests/server/gpu_door_test --gtest_brief=1
$tests/gpu_contract_test --gtest_brief=1 \
  --gtest_filter='GpuSlabsTest.*:GpuTablesTest.*'
$tests/golden_test --gtest_brief=1 --gtest_filter='*cuda*'
QUANTD_GPU_ELEMENTS=1e7 $tests/gpu_contract_test --gtest_brief=1 \
  --gtest_filter='*AgreesWithTheCpu'
QUANTD_CONTRACT_STRIDE=$((stride / 20 + 1)) $tests/contract_test \
  --gtest_brief=1 --gtest_filter='MagnitudesContract.*'
contract $hopper "$stride" 0 4 \
  'ShardsContract.*-*Large*:*LongRow*:*AroundPowers*'
if [ "${2:-}" = faults ]; then
  tests/emulation/faults.py $hopper "${@:3}"
fi
wait $! || failed=1
cat $hopper/blackwell.log
exit ${failed:-0}
