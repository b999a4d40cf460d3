#!/usr/bin/env bash
# A copy of this machine's root, for packages to be installed in, at WORK/root:
# an overlay in memory, with a /run and a /tmp of its own and the packages of
# DEBS in that /tmp. Belongs into a mount namespace, with which it goes. 77: no
# overlays here.
#
#   packages_root.sh WORK DEBS
set -euo pipefail
work=$1 debs=$2
here=$(cd "$(dirname "$0")" && pwd)

mkdir -p "$work"/{layers,root}
layers=$work/layers root=$work/root
mount -t tmpfs tmpfs "$layers" || exit 77
mkdir "$layers"/{upper,work}
mount -t overlay overlay "$root" -o \
  "lowerdir=/,upperdir=$layers/upper,workdir=$layers/work" || exit 77
mount -t tmpfs -o mode=0755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
cp "$debs"/*.deb "$here"/packages_{use,call,unit}.sh "$root/tmp"
