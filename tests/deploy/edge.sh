#!/usr/bin/env bash
# HAProxy as deploy/edge has it, before a server, both on loopback: what should
# pass passes with the same bytes, and the rest is refused in gRPC's own words.
#
#   edge.sh QUANTD QUANTCTL        HAPROXY: the program, or else that of PATH
set -euo pipefail
quantd=$1 quantctl=$2
here=$(cd "$(dirname "$0")" && pwd)
deploy=$here/../../deploy
haproxy=${HAPROXY:-$(PATH=$PATH:/usr/sbin command -v haproxy || true)}
if [ -z "$haproxy" ]; then
  echo "SKIPPED: haproxy is not here: the edge was NOT tested" \
    "(deploy/install-deps.sh --checks installs it)"
  exit 77
fi

work=$(mktemp -d)
started=()
finish() {
  for process in "${started[@]}"; do
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap finish EXIT
step() { printf -- '-- %s\n' "$*"; }
fail() { echo "FAILED: $*"; tail -5 "$work/edge.log"; exit 1; }

step "a server, and the edge before it"
"$deploy/make-certs.sh" "$work/certs" localhost 127.0.0.1 >/dev/null
cat "$work/certs/server.pem" "$work/certs/server.key" >"$work/both.pem"
"$quantd" --listen 127.0.0.1:0 --port-file "$work/port" --device cpu \
  --metrics-address 127.0.0.1:0 --drain-delay-ms 0 \
  --trusted-proxies 127.0.0.1 2>"$work/server.log" &
started+=($!)
for _ in {1..300}; do
  [ ! -s "$work/port" ] || break
  kill -0 "${started[0]}" 2>/dev/null || { cat "$work/server.log"; exit 1; }
  sleep 0.1
done
server=$(cat "$work/port") ready=$(cat "$work/port.metrics")
# A port that was free a moment ago.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
# edge NAME=VALUE...: starts it, and the one before it ends.
edge() {
  [ ${#started[@]} = 1 ] || {
    kill "${started[1]}"
    wait "${started[1]}" || true
    unset 'started[1]'
  }
  env EDGE_BIND="127.0.0.1:$port" EDGE_CERTIFICATE="$work/both.pem" \
    EDGE_SERVER="$server" EDGE_READY_HOST="${ready%:*}" \
    EDGE_READY_PORT="${ready##*:}" "$@" \
    "$haproxy" -W -f "$deploy/edge/haproxy.cfg" >"$work/edge.log" 2>&1 &
  started[1]=$!
  for _ in {1..100}; do
    ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 0
    kill -0 "${started[1]}" 2>/dev/null || break
    sleep 0.1
  done
  fail "the edge does not listen"
}
at=127.0.0.1:$port
tls=(--tls-ca "$work/certs/ca.pem")
# A call as curl makes it: NAME METHOD [curl's options]; says HTTP's status, that
# of gRPC and its message.
call() {
  local name=$1 method=$2
  shift 2
  curl --silent --http2 --cacert "$work/certs/ca.pem" --max-time 10 \
    --header "content-type: ${type:-application/grpc}" --header 'te: trailers' \
    --data-binary "@${body:-$work/empty}" --output "$work/body" \
    --dump-header "$work/$name" "$@" "https://$at/$method" || true
  tr -d '\r' <"$work/$name" | tr '\n' ' '
}
printf '\0\0\0\0\0' >"$work/empty"
# refused WHAT PATTERN TEXT
refused() {
  grep -qE "$2" <<<"$3" || fail "$1: expected $2, got $3"
  echo "   $1: as it should"
}

edge
step "what should pass"
"$quantctl" sample --out "$work/sample.safetensors" >/dev/null
for to in "$server" "$at"; do
  more=()
  [ "$to" = "$server" ] || more=("${tls[@]}")
  "$quantctl" quantize "$work/sample.safetensors" --server "$to" "${more[@]}" \
    --format nvfp4 --output "$work/${to##*:}.safetensors" >/dev/null
done
cmp "$work/${server##*:}.safetensors" "$work/$port.safetensors"
"$quantctl" info --server "$at" "${tls[@]}" >/dev/null
# 24 MiB, which is more than any window.
python3 - "$work/large.npy" <<'PY'
import struct, sys
head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2048, 3072), }\n"
with open(sys.argv[1], "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
    out.write(struct.pack("<3072f", *range(3072)) * 2048)
PY
"$quantctl" roundtrip "$work/large.npy" --server "$at" "${tls[@]}" >/dev/null
echo "   calls of a few KiB and of 24 MiB: the same bytes"

step "what should not"
refused "health" 'grpc-status: 12' \
  "$(call health grpc.health.v1.Health/Check)"
refused "reflection" 'grpc-status: 12' "$(call reflection \
  grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo)"
refused "what is no gRPC" '^HTTP/2 400' \
  "$(type=text/html call page quantd.v1.Quantd/GetServerInfo)"
refused "plain text" '^$' "$(curl --silent --max-time 5 \
  "http://$at/quantd.v1.Quantd/GetServerInfo" || true)"
refused "a header of 20 KiB" '^HTTP/2 (400|431)|^$' "$(call head \
  quantd.v1.Quantd/GetServerInfo --header "x: $(printf '%020000d' 0)")"
# It would have ended the connection to the server, with everybody's calls.
refused "bytes that are none: dropped, the call passes" '^HTTP/2 200.*grpc-status: 0' \
  "$(call bytes quantd.v1.Quantd/GetServerInfo \
    --header 'x-bin: !!!')"
refused "the longest timeout: the call passes" 'grpc-status: 0' \
  "$(call timeout quantd.v1.Quantd/GetServerInfo \
    --header 'grpc-timeout: 9999999H')"
head -c 1000005 /dev/zero | tr '\0' '\170' >"$work/large"
printf '\0\0\017\102\100' | dd of="$work/large" conv=notrunc status=none
refused "a question of 1 MB" 'grpc-status: 3' \
  "$(body=$work/large call large quantd.v1.Quantd/GetServerInfo)"
python3 "$here/edge_check.py" "$port" 32

step "limits, lower"
edge EDGE_REQUESTS_EACH=5
for _ in {1..8}; do
  last=$(call often quantd.v1.Quantd/GetServerInfo)
done
refused "too many calls" 'grpc-status: 8.*pushback-ms: 1000' "$last"
edge EDGE_REQUESTS_EACH=5 EDGE_FLOOD_EACH=10
for _ in {1..13}; do
  last=$(call flood quantd.v1.Quantd/GetServerInfo)
done
refused "who goes on after that" '^$' "$last"
edge EDGE_EMPTY_EACH=5
for _ in {1..8}; do
  last=$(call empty grpc.health.v1.Health/Check)
done
refused "who asks for nothing but what is not served" '^$' "$last"
edge EDGE_CALLS_EACH=0
refused "more calls at once than an address may have" \
  'grpc-status: 8.*pushback-ms: 1000' \
  "$(call many quantd.v1.Quantd/GetServerInfo)"
edge EDGE_EMPTY_EACH=50 EDGE_MESSAGE=1s
refused "a header alone" 'HTTP/2 408.*grpc-status: 14' "$(sleep 2 |
  curl --silent --http2 --cacert "$work/certs/ca.pem" --max-time 10 \
    --header 'content-type: application/grpc' --request POST --upload-file - \
    --output /dev/null --dump-header - "https://$at/quantd.v1.Quantd/Quantize" |
  tr -d '\r' | tr '\n' ' ')"
python3 "$here/edge_check.py" "$port" calls
((lines=$(wc -l <"$work/edge.log"))) || true
((lines < 200)) || fail "a flood wrote $lines lines of log"
edge EDGE_CLIENT=2s EDGE_HEADER=2s EDGE_IDLE=2s
python3 "$here/edge_check.py" "$port" idle

step "a server that is gone"
kill "${started[0]}"
wait "${started[0]}" || true
edge
for _ in {1..50}; do
  last=$(call gone quantd.v1.Quantd/GetServerInfo)
  ! grep -q '^HTTP/2 503' <<<"$last" || break
  sleep 0.1
done
refused "no server" '^HTTP/2 503' "$last"
