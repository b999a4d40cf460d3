#!/bin/sh
# Prints the version, which is defined only by project() in CMakeLists.txt.
set -eu
sed -n 's/^project(quantd VERSION \([0-9.]*\).*/\1/p' \
  "$(dirname "$0")/../CMakeLists.txt"
