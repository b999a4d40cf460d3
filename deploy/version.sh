#!/bin/sh
# Prints the version, of which project() in CMakeLists.txt is the only home.
set -eu
sed -n 's/^project(quantd VERSION \([0-9.]*\).*/\1/p' \
  "$(dirname "$0")/../CMakeLists.txt"
