#!/usr/bin/env bash
# Makes a copy of this machine's root file system at WORK/root for installing
# packages: an overlay in memory with its own /run and /tmp, and the packages of
# DEBS in /tmp. Run it in a mount namespace, which removes the copy at its end.
# Exits with 77 if overlays are not possible.
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
