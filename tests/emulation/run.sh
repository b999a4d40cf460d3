#!/usr/bin/env bash
# CUDA's kernels without a GPU: builds the preset "emulated", holds its device
# cuda:0 to the golden vectors and to a part of the contract, with threads in
# two orders; and lends a server memory and events of emulated GPUs.
#
#   tests/emulation/run.sh [STRIDE [faults [WORD...]]]
#
# STRIDE: one combination of the contract in so many (default 199). With
# "faults" it also sees that planted faults are found, or those whose names have
# one of the words: half a minute each.
#
# Exits with 77 where the CUDA toolkit's headers are not.
set -euo pipefail
cd "$(dirname "$0")/../.."
stride=${1:-199}

if ! ls "${CUDA_HOME:-/usr/local/cuda}/include/cuda_runtime_api.h" \
  /usr/include/cuda_runtime_api.h >/dev/null 2>&1 &&
  [ ! -e /usr/local/cuda/include/cuda_runtime_api.h ]; then
  echo "SKIPPED: the CUDA toolkit's headers are not here" >&2
  exit 77
fi
cmake --preset emulated >/dev/null
cmake --build --preset emulated -j "$(nproc)" --target golden_test contract_test \
  gpu_contract_test gpu_door_test
tests=build/emulated/tests/kernels
build/emulated/tests/server/gpu_door_test --gtest_brief=1
"$tests/gpu_contract_test" --gtest_brief=1 \
  --gtest_filter='GpuSlabsTest.*:GpuTablesTest.*'
"$tests/golden_test" --gtest_brief=1 --gtest_filter='*cuda*'
QUANTD_GPU_ELEMENTS=1e7 "$tests/gpu_contract_test" --gtest_brief=1 \
  --gtest_filter='*AgreesWithTheCpu'
QUANTD_CONTRACT_STRIDE=$((stride / 20 + 1)) "$tests/contract_test" \
  --gtest_brief=1 --gtest_filter='MagnitudesContract.*'
part() {
  echo "the contract, one combination in $stride, order of threads" \
    "$QUANTD_EMULATION_SEED, multiprocessors: $QUANTD_EMULATION_MULTIPROCESSORS"
  QUANTD_CONTRACT_STRIDE=$stride "$tests/contract_test" --gtest_brief=1 \
    --gtest_filter="DecodingContract.*:FormatsContract.*:NearTiesContract.*:ProfilesContract.*:$1"
}
export QUANTD_EMULATION_SEED=0 QUANTD_EMULATION_MULTIPROCESSORS=4
part 'ShardsContract.*-*Large*:*LongRow*:*AroundPowers*'
# With slow warps, and many tiles for each team: without what takes longest.
export QUANTD_EMULATION_SEED=1 QUANTD_EMULATION_MULTIPROCESSORS=1
part '-*Large*:*LongRow*:*AroundPowers*:*Given*'
if [ "${2:-}" = faults ]; then
  tests/emulation/faults.py build/emulated "${@:3}"
fi
