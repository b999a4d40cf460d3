#!/usr/bin/env bash
# deploy/quickstart.sh enables CUDA only if there is a GPU, and converts a model
# if it gets a directory. A replacement of cmake records its arguments and fails
# or succeeds, so this test takes no time.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/tree/deploy" "$work/bin"
cp "$root/deploy/quickstart.sh" "$work/tree/deploy/"
printf '#!/bin/sh\nexit 0\n' >"$work/tree/deploy/install-deps.sh"
chmod +x "$work/tree/deploy/install-deps.sh"
# PATH has nothing else; in particular, not this machine's nvidia-smi.
for tool in bash sh cat dirname grep mkdir nproc sed tail; do
  ln -s "$(command -v $tool)" "$work/bin/$tool"
done
cat >"$work/bin/cmake" <<'END'
#!/bin/sh
printf '%s\n' "$@" >arguments
exit 1
END
chmod +x "$work/bin/cmake"

failed=0
# expect WANT DESCRIPTION: the build must get -DQUANTD_CUDA=WANT.
expect() {
  local got
  rm -f "$work/tree/arguments"
  PATH=$work/bin "$work/tree/deploy/quickstart.sh" >"$work/log" 2>&1 || true
  got=$(grep '^-DQUANTD_CUDA=' "$work/tree/arguments" || echo "nothing")
  [ "$got" = "-DQUANTD_CUDA=$1" ] || {
    echo "$2: expected -DQUANTD_CUDA=$1, got $got"
    cat "$work/log"
    failed=1
  }
}
# smi TEXT CODE: makes an nvidia-smi that prints TEXT and exits with CODE.
smi() {
  printf '#!/bin/sh\necho "%s"\nexit %d\n' "$1" "$2" >"$work/bin/nvidia-smi"
  chmod +x "$work/bin/nvidia-smi"
}
expect OFF "no nvidia-smi"
smi "NVIDIA-SMI has failed because it could not reach the driver" 9
expect OFF "no driver"
smi "No devices were found" 0
expect OFF "no device"
smi "GPU 0: NVIDIA H200 (UUID: GPU-0)" 0
expect AUTO "a GPU"

# start ARGUMENT...: prints the exit code of quickstart.sh.
start() {
  local code=0
  PATH=$work/bin "$work/tree/deploy/quickstart.sh" "$@" >"$work/log" 2>&1 ||
    code=$?
  echo "$code"
}
# ends WANT DESCRIPTION CODE: the exit code must be WANT.
ends() {
  [ "$3" = "$1" ] || {
    echo "$2: expected exit code $1, got $3"
    cat "$work/log"
    failed=1
  }
}
mkdir -p "$work/model" "$work/tree/build/quickstart/client"
touch "$work/file.npy"
ends 2 "a directory without an output" "$(start "$work/model")"
ends 2 "a file with an output" "$(start "$work/file.npy" "$work/made")"
cat >"$work/bin/cmake" <<'END'
#!/bin/sh
echo "CUDA backend: off"
case "$*" in *--build*) echo "built: $*" ;; esac
END
quantctl=$work/tree/build/quickstart/client/quantctl
printf '#!/bin/sh\nshift\necho "converted: $*"\nexit 3\n' >"$quantctl"
chmod +x "$quantctl"
# quickstart.sh exits with the code of quantctl.
ends 3 "a model" "$(start "$work/model" "$work/made")"
grep -q "^converted: $work/model $work/made --server local" "$work/log" || {
  echo "a model: not converted"
  cat "$work/log"
  failed=1
}
grep -q "^built: .* --target quantctl\$" "$work/log" ||
  { echo "a model: more than quantctl was built"; failed=1; }
# After a successful conversion, it prints the next steps.
printf '#!/bin/sh\n' >"$quantctl"
ends 0 "a converted model" "$(start "$work/model" "$work/made")"
grep -q "^== Next" "$work/log" || { echo "no next steps are printed"; failed=1; }
exit $failed
