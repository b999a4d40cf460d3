#!/usr/bin/env bash
# Compares what `quantd calibrate` measures, and the scales that convert makes
# of it, with llm-compressor's and ModelOpt's own calibration of the same model
# on the same tokens.
#
#   tests/ecosystem/activations/run.sh [--offline] [--record] [losses|memory]
#
# The environments are those of ../run.sh, and one more for quantd's package. By
# hand only: neither tests/run.sh nor CI runs this.
#   losses      measure instead what real models lose in every format
#   memory      measure instead the memory of calibration
#   --offline   install nothing
#   --record    keep the results in this folder
#   QUANTCTL, QUANTD   the binaries to test; default: those of build/cpu
set -eu
own=$(cd "$(dirname "$0")" && pwd)
here=$(dirname "$own")
root=$(cd "$here/../.." && pwd)
work=$root/build/ecosystem
offline='' record='' base=base alone=''
for argument in "$@"; do
  case $argument in
    --offline) offline=1 ;;
    --record) record=1 ;;
    losses | memory) alone=$argument ;;
    *)
      sed -n '2,14s/^# \{0,1\}//p' "$0"
      exit 2 ;;
  esac
done
mkdir -p "$work/results"
# shellcheck source=tests/ecosystem/environment.sh
. "$here/environment.sh"
libraries=(compressed-tensors modelopt)
if [ -n "$alone" ]; then libraries=(); fi
for name in "$base" calibrate ${libraries[@]+"${libraries[@]}"}; do
  environment "$name" || { echo "SKIPPED: $name is not installed" >&2; exit 77; }
done
export QUANTCTL=${QUANTCTL:-$root/build/cpu/client/quantctl}
export QUANTD=${QUANTD:-$root/build/cpu/server/quantd}
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error PYTHONDONTWRITEBYTECODE=1

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ -n "$alone" ]; then
  results=$work/results/$alone.json
  if [ -n "$record" ]; then results=$own/results_$alone.json; fi
  PYTHONPATH=$root/client/python:$root/tests/client/python \
    "$work/calibrate/bin/python" "$own/$alone.py" "$folder" "$results"
  exit
fi
PYTHONPATH=$root/client/python "$work/calibrate/bin/python" "$own/measure.py" \
  "$folder"
failed=0
for library in "${libraries[@]}"; do
  "$work/$library/bin/python" "$own/compare.py" "$library" "$folder" \
    "$work/results/activations-$library.json" || failed=1
done
if [ -n "$record" ]; then
  "$work/$base/bin/python" - "$work"/results/activations-*.json \
    > "$own/results.json" << 'END'
import json
import sys

print(json.dumps([json.load(open(path)) for path in sys.argv[1:]], indent=1))
END
fi
exit "$failed"
