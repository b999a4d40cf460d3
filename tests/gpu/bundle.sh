#!/usr/bin/env bash
# Builds and packs everything that a GPU machine needs to test and measure
# quantd. The programs need no installed gRPC.
#
#   tests/gpu/bundle.sh [-j JOBS]
#
#   .gpu/bundle/       programs, run.sh and COMMIT
#   .gpu/bundle.tar.xz the same, under 60 MiB
#
# On the GPU machine: tar xJf bundle.tar.xz && bundle/run.sh RESULTS
# CUDA_ARCHITECTURES (default 90a) names the targets.
set -euo pipefail
cd "$(dirname "$0")/../.."

jobs=$(nproc)
while getopts j: option; do
  case $option in
    j) jobs=$OPTARG ;;
    *) exit 2 ;;
  esac
done

programs=(quantd quantctl sdk_bench golden_test contract_test gpu_contract_test
  local_memory_test cuda_memory_test gpu_bench lent_bench rpc_bench cpu_bench)
build=.gpu/build
bundle=.gpu/bundle
limit=$((60 << 20))

cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DQUANTD_CUDA=ON \
  -DQUANTD_STATIC=ON -DCMAKE_CUDA_ARCHITECTURES="${CUDA_ARCHITECTURES:-90a}" \
  -DCMAKE_EXE_LINKER_FLAGS="-static-libstdc++ -static-libgcc"
cmake --build "$build" --parallel "$jobs" --target "${programs[@]}"

rm -rf "$bundle" && mkdir -p "$bundle"
for name in "${programs[@]}"; do
  built=$(find "$build" -type f -name "$name" -perm -u+x)
  strip -s -o "$bundle/$name" "$built"
done
cp tests/gpu/run.sh tests/gpu/ways.sh "$bundle/"
git describe --always --abbrev=12 --dirty >"$bundle/COMMIT"

fail() {
  echo "bundle.sh: $*" >&2
  exit 1
}
# Programs may only need the C library, in a version that the GPU machine has.
for name in "${programs[@]}"; do
  other=$(ldd "$bundle/$name" | awk '{print $1}' |
    grep -Ev '^(linux-vdso|libc|libm|libdl|librt|libpthread)\.so|/ld-linux' ||
    true)
  [ -z "$other" ] || fail "$name needs $other"
  newest=$(objdump -T "$bundle/$name" | grep -o 'GLIBC_[0-9.]*' |
    sort -Vu | tail -1)
  [ "$(printf '%s\nGLIBC_2.39\n' "$newest" | sort -V | tail -1)" = GLIBC_2.39 ] ||
    fail "$name needs $newest"
done
# All programs hold the same kernels. A dictionary that spans all programs packs
# the kernels once.
tar c -C .gpu bundle | xz --lzma2=preset=1,dict=512MiB >.gpu/bundle.tar.xz
size=$(stat -c %s .gpu/bundle.tar.xz)
((size < limit)) || fail "bundle.tar.xz has $size bytes, over $limit"
du -h "$bundle"/* .gpu/bundle.tar.xz
