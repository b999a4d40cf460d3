#!/usr/bin/env bash
# Makes the Debian packages, installs them with dpkg, uses them, and runs the
# unit with systemd.
#
#   tests/deploy/packages.sh BUILD
#
# As root, packages are installed in a copy of this machine's root file system:
# an overlay in its own mount namespace, which is gone afterwards. The test
# checks the dependencies, the server's user, and a call to a server that runs
# as this user. Then such a copy boots, and its systemd runs the unit
# (packages_boot.sh). Without overlays the packages are only unpacked and the
# server runs from there, with a message. Exit code 77: a part was skipped.
set -euo pipefail
build=$(realpath "${1:?BUILD}")
source=$(cd "$(dirname "$0")/../.." && pwd)

if ! command -v dpkg-shlibdeps >/dev/null || ! command -v cpack >/dev/null; then
  echo "SKIPPED: no dpkg-shlibdeps: no packages were made"
  exit 77
fi

# Runs in the namespace: makes a root and uses the packages in it.
if [ "${2:-}" = inside ]; then
  work=$3
  "$source/tests/deploy/packages_root.sh" "$work" "$work"
  root=$work/root
  for folder in proc dev; do mount --rbind "/$folder" "$root/$folder"; done
  cp -r "$source/client/example" "$root/tmp/example"
  chroot "$root" /bin/bash /tmp/packages_use.sh /tmp
  exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$build" && cpack -G DEB -B "$work/cpack" >"$work/log" 2>&1) ||
  { cat "$work/log"; exit 1; }
cp "$work"/cpack/*.deb "$work"
for package in quantd quantctl libquantd-dev; do
  deb=("$work/${package}"_*.deb)
  [ -f "${deb[0]}" ] || { echo "no package $package"; exit 1; }
  depends=$(dpkg-deb -f "${deb[0]}" Depends)
  echo "$package: $(stat -c %s "${deb[0]}") bytes, depends on $depends"
  grep -q grpc <<<"$depends" || { echo "$package does not depend on gRPC"; exit 1; }
done
# Each file is in one package, and no file is outside /usr.
files=$(for deb in "$work"/*.deb; do dpkg-deb --fsys-tarfile "$deb" |
  tar -t | grep -v '/$'; done | sort)
[ -z "$(uniq -d <<<"$files")" ] ||
  { echo "in two packages:"; uniq -d <<<"$files"; exit 1; }
! grep -vE '^\./usr/' <<<"$files" || { echo "outside /usr"; exit 1; }
grep -qx './usr/lib/systemd/system/quantd.service' <<<"$files"

status=77
if [ "$(id -u)" = 0 ] &&
  unshare --mount --propagation private true 2>/dev/null; then
  status=0
  unshare --mount --propagation private "$0" "$build" inside "$work" ||
    status=$?
fi
case $status in
  0) "$source/tests/deploy/packages_boot.sh" "$work" ;;
  77)
    echo "SKIPPED: no overlay: the packages are only unpacked, NOT" \
      "installed by dpkg, and the unit was NOT run"
    for deb in "$work"/*.deb; do dpkg-deb -x "$deb" "$work/unpacked"; done
    "$source/tests/deploy/packages_use.sh" "$work" "$work/unpacked"
    exit 77
    ;;
  *) exit "$status" ;;
esac
