#!/usr/bin/env bash
# Compares quantd's bytes and checkpoints with those of the libraries it imitates.
#
#   tests/ecosystem/run.sh [--offline] [--record] [--cuda] [LIBRARY...]
#
# LIBRARY: compressed-tensors, modelopt, torchao or comfy; all of them if none
# is named. Each has a virtual environment below build/ecosystem/, made from the
# versions in locks/, on top of one with PyTorch (5 GB) that they share. What
# cannot be installed is skipped, with a message. Run by hand only: neither
# tests/run.sh nor CI runs this.
#   --offline   install nothing; skip what is not installed
#   --record    keep the results in tests/ecosystem/results.json
#   --cuda      only profiles.py, with the libraries on this machine's GPU;
#               QUANTCTL names a binary built with CUDA
#   QUANTCTL    the binary to test (default: built here with the preset cpu)
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$root/build/ecosystem
offline='' record='' cuda=''
libraries=()
for argument in "$@"; do
  case $argument in
    --offline) offline=1 ;;
    --record) record=1 ;;
    --cuda) cuda=1 ;;
    compressed-tensors | modelopt | torchao | comfy)
      libraries+=("$argument") ;;
    *)
      sed -n '2,18s/^# \{0,1\}//p' "$0"
      exit 2 ;;
  esac
done
if [ ${#libraries[@]} = 0 ]; then
  libraries=(compressed-tensors modelopt torchao comfy)
fi
mkdir -p "$work/results"

base=base
# shellcheck source=tests/ecosystem/environment.sh
. "$here/environment.sh"

if [ -n "$cuda" ] && [ -z "${QUANTCTL:-}" ]; then
  echo "--cuda needs QUANTCTL" >&2
  exit 2
fi
if [ -z "${QUANTCTL:-}" ]; then
  (cd "$root" && cmake --preset cpu > /dev/null &&
    cmake --build --preset cpu --target quantctl > /dev/null) || exit 1
  QUANTCTL=$root/build/cpu/client/quantctl
fi
export QUANTCTL PYTHONPATH=$here HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
export PYTHONDONTWRITEBYTECODE=1
failed=() skipped=() ran=()
if ! environment base ||
  ! "$work/base/bin/python" "$here/models.py" "$work/models" 2> /dev/null; then
  echo "SKIPPED: PyTorch and transformers are not installed" >&2
  exit 77
fi

# check LIBRARY PROGRAM NAME [MODELS]
check() {
  local log=$work/results/$2-$3.log
  ran+=("$2 $3")
  local arguments=("$3" ${4:+"$4"})
  if [ "$2" = rate ]; then arguments=("$4"); fi
  "$work/$1/bin/python" "$here/$2.py" "${arguments[@]}" \
    "$work/results/$2-$3.json" 2> "$log" || {
    failed+=("$2 $3")
    tail -n 5 "$log"
  }
}
# check_cuda LIBRARY NAME
check_cuda() {
  local log=$work/results/profiles-$2-cuda.log
  ran+=("profiles $2 on CUDA")
  "$work/$1/bin/python" "$here/profiles.py" "$2" \
    "$work/results/profiles-$2-cuda.json" --device cuda 2> "$log" || {
    failed+=("profiles $2 on CUDA")
    tail -n 5 "$log"
  }
}
for library in "${libraries[@]}"; do
  if ! environment "$library"; then
    echo "SKIPPED: $library is not installed" >&2
    skipped+=("$library")
    continue
  fi
  name=${library//-/_}
  if [ -n "$cuda" ]; then
    check_cuda "$library" "$name"
    if [ "$library" = compressed-tensors ]; then
      check_cuda "$library" compressed_tensors_eager
    fi
    continue
  fi
  check "$library" profiles "$name"
  case $library in
    compressed-tensors)
      for dialect in compressed_tensors deepseek gpt_oss; do
        check "$library" checkpoints "$dialect" "$work/models"
      done
      check "$library" rate minilm "$work/models/minilm" ;;
    modelopt | comfy) check "$library" checkpoints "$name" "$work/models" ;;
  esac
done
echo "ran ${#ran[@]}, failed ${#failed[@]}: ${failed[*]-}"
if [ ${#skipped[@]} -gt 0 ]; then
  echo "SKIPPED: ${skipped[*]} could not be installed" >&2
fi
if [ -n "$record" ]; then
  "$work/base/bin/python" "$here/record.py" "$work/results" \
    "$here/results.json"
fi
[ ${#failed[@]} = 0 ] && [ ${#ran[@]} -gt 0 ]
