#!/usr/bin/env bash
# The version is written once, in project() in CMakeLists.txt. Both programs and
# a running server must report that one.
#
#   version.sh QUANTD QUANTCTL
set -euo pipefail
quantd=$1 quantctl=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
want=$("$root/deploy/version.sh")
work=$(mktemp -d)
server=''
finish() {
  if [ -n "$server" ]; then
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT

failed=0
# same WHAT WANT GOT
same() {
  [ "$2" = "$3" ] || { echo "$1: expected '$2', got '$3'"; failed=1; }
}
same "quantd --version" "quantd $want" "$("$quantd" --version)"
same "quantctl --version" "quantctl $want" "$("$quantctl" --version)"

"$quantd" --listen 127.0.0.1:0 --port-file "$work/port" --memory-budget 64MiB \
  --device cpu --drain-delay-ms 0 >"$work/log" 2>&1 &
server=$!
for _ in $(seq 200); do
  [ -s "$work/port" ] && break
  kill -0 "$server" 2>/dev/null || { cat "$work/log"; exit 1; }
  sleep 0.05
done
told=$("$quantctl" info --server "$(cat "$work/port")" --json |
  sed -n 's/.*"version": *"\([^"]*\)".*/\1/p')
same "GetServerInfo" "$want" "$told"
exit $failed
