#!/usr/bin/env bash
# Loads the directories that quantctl writes in the engines they are meant for,
# and checks the results.
#
#   tests/ecosystem/engines/run.sh [--offline] [--record] [ENGINE [FILTER...]]
#
# ENGINE: vllm or sglang; both by default. FILTER: a regular expression; a cell
# runs if its name matches one of them, for example 'llama modelopt'. Each
# engine has a virtual environment below build/ecosystem/, made from locks/;
# SGLang's lies on top of vLLM's (6 GB). Runs on a CPU, by hand: neither
# tests/run.sh nor CI runs this.
#   --offline   install nothing; skip what is not installed
#   --record    keep the results in tests/ecosystem/engines/results.json
#   QUANTCTL    the binary to test (default: built here with the preset cpu);
#               QUANTCTL_COMMIT is the commit of such a binary
# Exit code 1 if a cell is WRONG, or if a scale that is off by 5 % passes.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
work=$root/build/ecosystem
offline='' record='' engines=() filters=()
for argument in "$@"; do
  case $argument in
    --offline) offline=1 ;;
    --record) record=1 ;;
    -*) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
    vllm | sglang) engines+=("$argument") ;;
    *) filters+=("$argument") ;;
  esac
done
if [ ${#engines[@]} = 0 ]; then engines=(vllm sglang); fi
if [ -n "$record" ] && [ ${#filters[@]} -gt 0 ]; then
  echo "run.sh: --record needs all results: name no filter" >&2
  exit 2
fi

base=vllm
# shellcheck source=tests/ecosystem/environment.sh
. "$here/../environment.sh"

if [ -z "${QUANTCTL:-}" ]; then
  (cd "$root" && cmake --preset cpu > /dev/null &&
    cmake --build --preset cpu --target quantctl > /dev/null) || exit 1
  QUANTCTL=$root/build/cpu/client/quantctl
fi
# Read before results are recorded, because recording makes the tree dirty.
: "${QUANTCTL_COMMIT:=$(git -C "$root" describe --always --dirty)}"
export QUANTCTL QUANTCTL_COMMIT HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
export OMP_NUM_THREADS=1 TRANSFORMERS_VERBOSITY=error PYTHONDONTWRITEBYTECODE=1
mkdir -p "$work/engines"
status=0
for engine in "${engines[@]}"; do
  if ! environment vllm || ! environment "$engine"; then
    echo "SKIPPED: $engine is not installed" >&2
    if [ $status = 0 ]; then status=77; fi
    continue
  fi
  results=$work/engines/results.json
  if [ -n "$record" ]; then results=$here/results.json; fi
  nice -n 10 "$work/$engine/bin/python" "$here/cells.py" "$engine" \
    "$work/engines" "$results" ${filters[@]+"${filters[@]}"} \
    2> "$work/engines/$engine.log" || status=1
done
exit $status
