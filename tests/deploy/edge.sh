#!/usr/bin/env bash
# Tests HAProxy as configured by deploy/edge, in front of a server, both on loopback.
# Legal calls pass with the same bytes. All others get an error, or the connection ends.
#
#   edge.sh QUANTD QUANTCTL        HAPROXY: the program (default: haproxy in PATH)
set -euo pipefail
quantd=$1 quantctl=$2
here=$(cd "$(dirname "$0")" && pwd)
deploy=$here/../../deploy
haproxy=${HAPROXY:-$(PATH=$PATH:/usr/sbin command -v haproxy || true)}
if [ -z "$haproxy" ]; then
  echo "SKIPPED: haproxy is missing: the edge was NOT tested" \
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

step "start a server, and the edge in front of it"
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
# Chooses a port that is free now.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
# edge NAME=VALUE...: stops the running edge and starts one with these settings.
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
# call NAME METHOD [OPTION OF curl...]: makes a call with curl. Prints HTTP's
# status, gRPC's status and its message.
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
# expect NAME PATTERN RESULT: RESULT must match PATTERN.
expect() {
  grep -qE "$2" <<<"$3" || fail "$1: expected $2, got $3"
  echo "   $1: as expected"
}

edge
step "calls that must pass"
"$quantctl" sample --out "$work/sample.safetensors" >/dev/null
for to in "$server" "$at"; do
  more=()
  [ "$to" = "$server" ] || more=("${tls[@]}")
  "$quantctl" quantize "$work/sample.safetensors" --server "$to" "${more[@]}" \
    --format nvfp4 --output "$work/${to##*:}.safetensors" >/dev/null
done
cmp "$work/${server##*:}.safetensors" "$work/$port.safetensors"
"$quantctl" info --server "$at" "${tls[@]}" >/dev/null
# 24 MiB, more than any flow-control window.
python3 - "$work/large.npy" <<'PY'
import struct, sys
head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2048, 3072), }\n"
with open(sys.argv[1], "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
    out.write(struct.pack("<3072f", *range(3072)) * 2048)
PY
"$quantctl" roundtrip "$work/large.npy" --server "$at" "${tls[@]}" >/dev/null
echo "   calls of a few KiB and of 24 MiB return the same bytes"

step "requests that must be refused"
expect "health" 'grpc-status: 12' \
  "$(call health grpc.health.v1.Health/Check)"
expect "reflection" 'grpc-status: 12' "$(call reflection \
  grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo)"
expect "another content type than gRPC's" '^HTTP/2 400' \
  "$(type=text/html call page quantd.v1.Quantd/GetServerInfo)"
expect "plain text" '^$' "$(curl --silent --max-time 5 \
  "http://$at/quantd.v1.Quantd/GetServerInfo" || true)"
expect "a header of 20 KiB" '^HTTP/2 (400|431)|^$' "$(call head \
  quantd.v1.Quantd/GetServerInfo --header "x: $(printf '%020000d' 0)")"
# If the edge passed this field on, the server would end the connection that all
# clients of the edge share.
expect "an invalid -bin field is dropped, and the call passes" '^HTTP/2 200.*grpc-status: 0' \
  "$(call bytes quantd.v1.Quantd/GetServerInfo \
    --header 'x-bin: !!!')"
expect "a call with the longest timeout passes" 'grpc-status: 0' \
  "$(call timeout quantd.v1.Quantd/GetServerInfo \
    --header 'grpc-timeout: 9999999H')"
head -c 1000005 /dev/zero | tr '\0' '\170' >"$work/large"
printf '\0\0\017\102\100' | dd of="$work/large" conv=notrunc status=none
expect "a GetServerInfo request of 1 MB" 'grpc-status: 3' \
  "$(body=$work/large call large quantd.v1.Quantd/GetServerInfo)"
python3 "$here/edge_check.py" "$port" 32

step "lower limits"
edge EDGE_REQUESTS_EACH=5
for _ in {1..8}; do
  last=$(call often quantd.v1.Quantd/GetServerInfo)
done
expect "too many calls" 'grpc-status: 8.*pushback-ms: 1000' "$last"
edge EDGE_REQUESTS_EACH=5 EDGE_FLOOD_EACH=10
for _ in {1..13}; do
  last=$(call flood quantd.v1.Quantd/GetServerInfo)
done
expect "a client that continues after such refusals" '^$' "$last"
edge EDGE_EMPTY_EACH=5
for _ in {1..8}; do
  last=$(call empty grpc.health.v1.Health/Check)
done
expect "a client that only calls unknown services" '^$' "$last"
edge EDGE_CALLS_EACH=0
expect "more concurrent calls than an address may have" \
  'grpc-status: 8.*pushback-ms: 1000' \
  "$(call many quantd.v1.Quantd/GetServerInfo)"
edge EDGE_EMPTY_EACH=50 EDGE_MESSAGE=1s
expect "a header without a message" 'HTTP/2 408.*grpc-status: 14' "$(sleep 2 |
  curl --silent --http2 --cacert "$work/certs/ca.pem" --max-time 10 \
    --header 'content-type: application/grpc' --request POST --upload-file - \
    --output /dev/null --dump-header - "https://$at/quantd.v1.Quantd/Quantize" |
  tr -d '\r' | tr '\n' ' ')"
python3 "$here/edge_check.py" "$port" calls
((lines=$(wc -l <"$work/edge.log"))) || true
((lines < 200)) || fail "the flood wrote $lines log lines"
edge EDGE_CLIENT=2s EDGE_HEADER=2s EDGE_IDLE=2s
python3 "$here/edge_check.py" "$port" idle

step "a stopped server"
kill "${started[0]}"
wait "${started[0]}" || true
edge
for _ in {1..50}; do
  last=$(call gone quantd.v1.Quantd/GetServerInfo)
  ! grep -q '^HTTP/2 503' <<<"$last" || break
  sleep 0.1
done
expect "no server" '^HTTP/2 503' "$last"
