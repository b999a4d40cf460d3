#!/bin/sh
# Packs the sources of a commit into an archive with reproducible bytes:
#
#   deploy/archive.sh OUT.tar.xz [COMMIT]
#
# Files have the commit's time, no owner, and modes independent of the umask.
# Another version of xz may compress differently; then compare the tar files.
set -eu
out=${1:?OUT.tar.xz}
commit=${2:-HEAD}
cd "$(dirname "$0")/.."
version=$(git show "$commit:CMakeLists.txt" |
  sed -n 's/^project(quantd VERSION \([0-9.]*\).*/\1/p')
git -c tar.umask=0022 archive --format=tar --prefix="quantd-$version/" \
  "$commit" | xz -6 -T1 >"$out.partial"
mv "$out.partial" "$out"
