#!/bin/sh
# Copies the licences of the libraries that the programs contain:
# deploy/notices.sh DIRECTORY
set -eu
mkdir -p "$1"
cp "$(dirname "$0")/../LICENSE" "$1/"
for package in libgrpc-dev libprotobuf-dev libabsl-dev libssl-dev libc-ares-dev \
  libre2-dev zlib1g-dev libspdlog-dev libfmt-dev libcli11-dev \
  nlohmann-json3-dev g++; do
  cp "/usr/share/doc/$package/copyright" "$1/$package"
done
