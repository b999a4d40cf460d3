#!/usr/bin/env bash
# Tests the servers of deploy/compose.yaml with clients in a separate container:
#
#   checks.sh              runs every check of the table below
#   checks.sh NAME...      runs these checks
#   checks.sh load SECONDS CALLS
#
# Prints a line for each check, and the output of failed ones. The exit code is 0
# if none failed. Runs in the image target `tests`, which has the clients in /tests.
set -uo pipefail

table=(
  "both_replicas|the name quantd resolves to two servers"
  "sdk_example|C++: the example, built with the installed package"
  "sdk_bytes|C++: 400 calls on 4 threads, every byte compared"
  "quantctl_file|quantctl: a file is quantized and dequantized"
  "python_stubs|Python: stock stubs, every byte compared"
  "tls_sdk|TLS: quantctl, with --tls-ca"
  "tls_python|TLS: stock Python stubs"
  "tls_unknown_ca|TLS: a server whose CA is unknown is refused"
  "tls_plain_text|TLS: a client in plain text gets an error message"
  "mtls_sdk|mTLS: quantctl, with a client certificate"
  "mtls_python|mTLS: stock Python stubs"
  "mtls_no_certificate|mTLS: a client without a certificate is refused"
  "metrics|metrics of both replicas count the calls"
  "prometheus|Prometheus scrapes every server"
)

certificates=/certificates
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

python_client() {
  python3 /tests/python_stub_test.py --proto=/tests/quantd.proto \
    --protoc=/usr/bin/protoc --plugin=/usr/bin/grpc_python_plugin "$@"
}
# refused WORDS COMMAND...: the command must fail within 30 seconds and print
# WORDS.
refused() {
  local words=$1
  shift
  timeout 30 "$@" >said 2>&1
  local code=$?
  cat said
  [ "$code" != 0 ] && [ "$code" -lt 124 ] && grep -qiE "$words" said
}

both_replicas() {
  getent ahostsv4 quantd | awk '{print $1}' | sort -u | tee addresses
  [ "$(wc -l <addresses)" = 2 ] || return 1
  while read -r address; do
    quantctl info --server "$address:50151" || return 1
  done <addresses
}
sdk_example() { /tests/example/build/quantize_tensor quantd:50151 w.safetensors; }
sdk_bytes() { /tests/load/build/quantd_load quantd:50151 60 400; }
quantctl_file() {
  python3 -c 'import numpy; numpy.save("x.npy",
    numpy.random.default_rng(3).standard_normal((256, 512), numpy.float32))'
  quantctl quantize x.npy --server quantd:50151 --output q.safetensors &&
    quantctl dequantize q.safetensors --server quantd:50151 \
      --output y.safetensors && ls -l q.safetensors y.safetensors
}
python_stubs() { python_client --address=quantd:50151; }

tls_sdk() {
  quantctl info --server quantd-tls:50151 --tls-ca "$certificates/ca.pem"
}
tls_python() {
  python_client --address=quantd-tls:50151 --ca="$certificates/ca.pem"
}
tls_unknown_ca() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
    -keyout other.key -out other.pem -subj /CN=other -days 1 2>/dev/null &&
    refused "certificate|handshake" \
      quantctl info --server quantd-tls:50151 --tls-ca other.pem
}
tls_plain_text() { refused "TLS" quantctl info --server quantd-tls:50151; }
mtls_sdk() {
  quantctl info --server quantd-mtls:50151 --tls-ca "$certificates/ca.pem" \
    --tls-cert "$certificates/client.pem" --tls-key "$certificates/client.key"
}
mtls_python() {
  python_client --address=quantd-mtls:50151 --ca="$certificates/ca.pem" \
    --cert="$certificates/client.pem" --key="$certificates/client.key"
}
mtls_no_certificate() {
  refused "certificate|handshake|TLS" \
    quantctl info --server quantd-mtls:50151 --tls-ca "$certificates/ca.pem"
}

# fetch URL: prints the body.
fetch() {
  python3 -c 'import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())' "$1"
}
metrics() {
  for replica in quantd-a quantd-b; do
    fetch "http://$replica:9151/metrics" >page || return 1
    grep -E '^quantd_requests_total\{' page || return 1
  done
}
prometheus() {
  for _ in $(seq 60); do
    fetch "http://prometheus:9090/api/v1/query?query=up" >up 2>&1
    [ "$(grep -o '"1"\]' up | wc -l)" -ge 2 ] && ! grep -q '"0"\]' up &&
      { cat up; return 0; }
    sleep 1
  done
  cat up
  return 1
}

if [ "${1:-}" = load ]; then
  exec /tests/load/build/quantd_load quantd:50151 "${2:?seconds}" "${3:?calls}"
fi

failed=0
for row in "${table[@]}"; do
  name=${row%%|*}
  [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
  start=$(date +%s%N)
  if $name >"$name.log" 2>&1; then outcome=passed; else outcome=FAILED; fi
  milliseconds=$((($(date +%s%N) - start) / 1000000))
  printf 'check|%s|%s|%d ms|%s\n' "$outcome" "$name" "$milliseconds" "${row#*|}"
  if [ $outcome = FAILED ]; then
    failed=1
    sed 's/^/    /' "$name.log" | tail -30
  fi
done
exit $failed
