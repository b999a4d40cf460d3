#!/usr/bin/env bash
# Tests CUDA's kernels without a GPU. Builds the preset "emulated" and compares
# its device cuda:0 with the golden vectors and a part of the contract, in two
# orders of threads. Also tests a server to which memory and events of emulated
# GPUs are lent.
#
#   tests/emulation/run.sh [STRIDE [faults [WORD...]]]
#
# Runs every STRIDE-th combination of the contract (default 199). With "faults"
# it also checks that planted faults are found, which takes half a minute for
# each. WORDs select faults whose names contain one of them.
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
  echo "contract: one of $stride combinations, order of threads" \
    "$QUANTD_EMULATION_SEED, multiprocessors: $QUANTD_EMULATION_MULTIPROCESSORS"
  QUANTD_CONTRACT_STRIDE=$stride "$tests/contract_test" --gtest_brief=1 \
    --gtest_filter="DecodingContract.*:FormatsContract.*:NearTiesContract.*:ProfilesContract.*:$1"
}
export QUANTD_EMULATION_SEED=0 QUANTD_EMULATION_MULTIPROCESSORS=4
part 'ShardsContract.*-*Large*:*LongRow*:*AroundPowers*'
# Runs them again with slow warps and with many tiles for each team, but without
# the longest tests.
export QUANTD_EMULATION_SEED=1 QUANTD_EMULATION_MULTIPROCESSORS=1
part '-*Large*:*LongRow*:*AroundPowers*:*Given*'
if [ "${2:-}" = faults ]; then
  tests/emulation/faults.py build/emulated "${@:3}"
fi
