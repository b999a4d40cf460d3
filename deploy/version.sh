#!/bin/sh
# Prints the version. Only project() in CMakeLists.txt defines it.
set -eu
sed -n 's/^project(quantd VERSION \([0-9.]*\).*/\1/p' \
  "$(dirname "$0")/../CMakeLists.txt"
