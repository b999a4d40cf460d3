#!/usr/bin/env bash
# Starts a server on loopback, makes calls, and compares its metrics page, the alerts
# and the dashboard with each other and with promtool. Then starts one whose device
# fails, and checks with promtool which alerts fire.
#
#   metrics.sh QUANTD QUANTCTL [DEVICE]     DEVICE: as --device (default "cpu")
#
# promtool is $PROMTOOL or in PATH (tests/deploy/promtool.sh downloads one). Without it
# everything else is checked, and the test is skipped with exit code 77.
set -euo pipefail
quantd=$1 quantctl=$2 device=${3:-cpu}
here=$(cd "$(dirname "$0")" && pwd)
deploy=$here/../../deploy

work=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT
step() { printf -- '-- %s\n' "$*"; }

# serve DEVICE: starts a server. Sets server, address and metrics.
serve() {
  "$quantd" --listen 127.0.0.1:0 --port-file "$work/port" --device "$1" \
    --metrics-address 127.0.0.1:0 --drain-delay-ms 0 2>"$work/log" &
  server=$!
  for _ in $(seq 300); do
    [ -s "$work/port" ] && break
    kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
    sleep 0.1
  done
  address=$(cat "$work/port") metrics=$(cat "$work/port.metrics")
}

step "make calls"
serve "$device"
"$quantctl" sample --out "$work/sample.safetensors" >/dev/null
"$quantctl" roundtrip "$work/sample.safetensors" --server "$address" \
  --rht rowwise >/dev/null
"$quantctl" info --server "$address" >/dev/null
python3 "$here/metrics_check.py" get "http://$metrics/metrics" "$work/metrics.txt"

step "compare names of the page, the alerts and the dashboard"
cp "$deploy/prometheus/"*.yml "$here/alerts_test.yml" "$work/"
python3 "$here/metrics_check.py" check "$work/metrics.txt" \
  "$work/alerts.yml" "$deploy/grafana/quantd.json" "$work/dashboard.yml"
python3 "$here/metrics_check.py" stages "$work/metrics.txt" "$device"

step "promtool"
promtool=${PROMTOOL:-$(command -v promtool || true)}
if [ -z "$promtool" ]; then
  echo "SKIPPED: no promtool in PATH or \$PROMTOOL, so the syntax of metrics," \
    "rules and queries was NOT checked (tests/deploy/promtool.sh downloads one)"
  exit 77
fi
"$promtool" check metrics <"$work/metrics.txt"
"$promtool" check config "$work/prometheus.yml"
"$promtool" test rules "$work/alerts_test.yml"
"$promtool" check rules "$work/dashboard.yml"

step "error alerts of a healthy server, and of one whose device fails"
call() {
  "$quantctl" roundtrip "$work/sample.safetensors" --server "$address" \
    --deadline "$1" >/dev/null 2>&1
}
page() { python3 "$here/metrics_check.py" get "http://$metrics/metrics" "$1"; }
# fires ALERT...: exactly these alerts must fire for the counts between two
# pages.
fires() {
  python3 "$here/metrics_check.py" burn "$work/before.txt" "$work/after.txt" \
    "$work/burn_test.yml" "$@"
  "$promtool" test rules "$work/burn_test.yml"
}
page "$work/before.txt"
call 30 && call 30
page "$work/after.txt"
fires
number() { sed -n "s/^$1 //p" "$work/after.txt"; }
sum() { grep "^$1{" "$work/after.txt" | awk '{n += $2} END {print n}'; }
self_test=$(($(sum quantd_device_jobs_total) -
  $(number 'quantd_requests_total{method="Quantize"}') -
  $(number 'quantd_requests_total{method="Dequantize"}')))
# The server removes its port file when it ends.
kill "$server" && wait "$server"
# Serves one roundtrip, which is four jobs. Then the device fails.
serve "fault:cpu:0:sticky@$((self_test + 5))/600000"
call 30 && page "$work/before.txt"
if call 2; then echo "no fault was injected" >&2; exit 1; fi
page "$work/after.txt"
fires QuantdErrorBudgetFast QuantdErrorBudgetSlow
