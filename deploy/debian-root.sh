#!/usr/bin/env bash
# Makes a minimal root file system of this machine's Debian or Ubuntu version,
# from the machine's package sources and with its apt settings:
#
#   deploy/debian-root.sh ROOT [PACKAGE,PACKAGE...]
#
# Needs root and debootstrap. Does not mount anything of the machine.
set -euo pipefail
root=${1:?ROOT} include=ca-certificates${2:+,$2}
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
# shellcheck disable=SC2016  # what apt-get expands
source=$(apt-get indextargets --format '$(CREATED_BY) $(RELEASE) $(REPO_URI)' |
  awk -v suite="$suite" '$1 == "Packages" && $2 == suite {print $3; exit}')
[ -n "$source" ] || { echo "apt-get lists no source for $suite" >&2; exit 1; }
for keyring in /usr/share/keyrings/{debian,ubuntu}-archive-keyring.gpg; do
  [ -e "$keyring" ] && break
done
debootstrap --variant=minbase --include="$include" --keyring="$keyring" \
  "$suite" "$root" "$source"
# Leaves out third-party sources, because their keys are not in the new root.
rm -f "$root/etc/apt/sources.list"
find /etc/apt -path '/etc/apt/sources.list*' -type f \
  -exec grep -qF "${source%/}" {} \; -exec cp --parents -t "$root" {} +
find /etc/apt/apt.conf.d -type f -exec grep -q '^Acquire' {} \; \
  -exec cp -t "$root/etc/apt/apt.conf.d/" {} +
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/image"
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
