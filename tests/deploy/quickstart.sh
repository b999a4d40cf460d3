#!/usr/bin/env bash
# deploy/quickstart.sh asks for CUDA only where a GPU answers, and converts a
# model where it is given a directory. A cmake that notes its arguments and
# fails, or succeeds, stands in for the build, so this takes no time.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/tree/deploy" "$work/bin"
cp "$root/deploy/quickstart.sh" "$work/tree/deploy/"
printf '#!/bin/sh\nexit 0\n' >"$work/tree/deploy/install-deps.sh"
chmod +x "$work/tree/deploy/install-deps.sh"
# Nothing else is in PATH, no nvidia-smi of this machine above all.
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
# expect WANT WHERE: what the build was asked for.
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
# smi TEXT CODE
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

# start ARGUMENTS...: says with which code it ended.
start() {
  local code=0
  PATH=$work/bin "$work/tree/deploy/quickstart.sh" "$@" >"$work/log" 2>&1 ||
    code=$?
  echo "$code"
}
# ends WANT WHAT GOT
ends() {
  [ "$3" = "$1" ] || {
    echo "$2: expected exit code $1, got $3"
    cat "$work/log"
    failed=1
  }
}
mkdir -p "$work/model" "$work/tree/build/quickstart/client"
touch "$work/file.npy"
ends 2 "a directory alone" "$(start "$work/model")"
ends 2 "a file and what to write" "$(start "$work/file.npy" "$work/made")"
cat >"$work/bin/cmake" <<'END'
#!/bin/sh
echo "CUDA backend: off"
case "$*" in *--build*) echo "built: $*" ;; esac
END
quantctl=$work/tree/build/quickstart/client/quantctl
printf '#!/bin/sh\nshift\necho "converted: $*"\nexit 3\n' >"$quantctl"
chmod +x "$quantctl"
# Its end is that of quantctl.
ends 3 "a model" "$(start "$work/model" "$work/made")"
grep -q "^converted: $work/model $work/made --server local" "$work/log" || {
  echo "a model: not converted"
  cat "$work/log"
  failed=1
}
grep -q "^built: .* --target quantctl\$" "$work/log" ||
  { echo "a model: more than quantctl was built"; failed=1; }
# And where that went well it tells what to do next.
printf '#!/bin/sh\n' >"$quantctl"
ends 0 "a model that is converted" "$(start "$work/model" "$work/made")"
grep -q "^== Next" "$work/log" || { echo "nothing next"; failed=1; }
exit $failed
