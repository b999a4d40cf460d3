#!/usr/bin/env bash
# tests/run.sh prints its plan first, uses CUDA if there is a GPU, and runs the
# tests of all labels but `long`, cheap tests first. Replacements of cmake and
# ctest only print their arguments.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/tree/tests" "$work/tree/deploy" "$work/bin"
cp "$root/tests/run.sh" "$work/tree/tests/"
printf '#!/bin/sh\n' >"$work/tree/deploy/install-deps.sh"
for name in cmake ctest; do
  printf '#!/bin/sh\necho "called: %s $*"\n' $name >"$work/bin/$name"
done
chmod +x "$work/tree/deploy/install-deps.sh" "$work/bin/"*
# PATH has nothing else; in particular, not this machine's nvidia-smi.
for tool in bash cat dirname nproc sed sh; do
  ln -s "$(command -v $tool)" "$work/bin/$tool"
done

failed=0
# expect DESCRIPTION LINES ARGUMENTS...: the output must contain LINES in order.
expect() {
  local what=$1 lines=$2 line rest
  shift 2
  PATH=$work/bin "$work/tree/tests/run.sh" --jobs 2 "$@" >"$work/said"
  rest=$(cat "$work/said")
  while read -r line; do
    [[ $rest == *"$line"* ]] || {
      echo "$what: no '$line' at its position in the output:"
      cat "$work/said"
      failed=1
      return
    }
    rest=${rest#*"$line"}
  done <<<"$lines"
}
calls='called: cmake --build
-L ^unit$
-L ^contract$
-LE ^(unit|contract|slow|long|gpu)$
-L ^slow$ -LE ^(long|gpu)$'
expect "no GPU" "tests/run.sh: preset cpu, 2 at a time
slow: about
long      not run
called: cmake --preset cpu
$calls
the tests with label gpu were NOT run"
! grep -q '\-L ^long' "$work/said" || { echo "long tests run without --full"; failed=1; }
expect "long forms" "long      about
$calls
-L ^long$" --full
expect "arguments" "-L ^unit$ -R wire
-LE ^(unit|contract|slow|long|gpu)$ -R wire" -- -R wire
expect "a slow machine" "tests     unit, one in 29 of contract, rpc
called: cmake --preset cpu -DQUANTD_TEST_SLOWNESS=4
-L ^unit$ --repeat until-pass:2
-L ^contract$ --repeat until-pass:2
all of the contract but one combination in 29: NOT TESTED" --slowness 4
! grep -q '\-L ^slow' "$work/said" || { echo "slow tests run on a slow machine"; failed=1; }
expect "only built" "tests     not run
long      not run
called: cmake --build" --build --full
! grep -q 'called: ctest' "$work/said" || { echo "tests run with --build"; failed=1; }
printf '#!/bin/sh\necho "GPU 0: NVIDIA H200 (UUID: GPU-0)"\n' >"$work/bin/nvidia-smi"
chmod +x "$work/bin/nvidia-smi"
expect "a GPU" "tests/run.sh: preset default
gpu       run
called: cmake --preset default
$calls
build/default -L gpu"
exit $failed
