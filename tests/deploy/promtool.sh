#!/usr/bin/env bash
# Prints the path of promtool: $PROMTOOL, or the one in PATH, or one from the
# distribution's package prometheus. The package is downloaded and unpacked into
# FOLDER, and not installed, because it starts a daemon.
#
#   tests/deploy/promtool.sh FOLDER
set -euo pipefail
folder=${1:?usage: promtool.sh FOLDER}

found=${PROMTOOL:-$(command -v promtool || true)}
if [ -z "$found" ]; then
  found=$(realpath -m "$folder")/usr/bin/promtool
  if [ ! -x "$found" ]; then
    mkdir -p "$folder"
    (cd "$folder" &&
      { apt-get download -q prometheus ||
        { apt-get update -q && apt-get download -q prometheus; }; } &&
      dpkg --fsys-tarfile prometheus_*.deb | tar x ./usr/bin/promtool &&
      rm prometheus_*.deb) >&2
  fi
fi
"$found" --version >/dev/null 2>&1
echo "$found"
