#!/bin/bash
# Renders the report of a model in a browser. The console must stay empty.
#
#   model_report_test.sh <quantctl> <artifacts dir> [MODEL]
#
# MODEL replaces the generated model. Exits with 77 (skipped) without Chromium.
set -euo pipefail
quantctl=$1 artifacts=$2 model=${3:-}

browser=
for name in chromium chromium-browser google-chrome; do
  command -v $name >/dev/null && browser=$name && break
done
if [ -z "$browser" ]; then
  echo "SKIPPED: no Chromium here (apt-get install chromium)" >&2
  exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$artifacts"

if [ -z "$model" ]; then
  model=$work/model
  python3 "$(dirname "$0")/tiny_llama.py" "$model" planted
fi

"$quantctl" convert "$model" "$work/made" --server local:cpu \
  --report "$artifacts" >"$work/log" || { cat "$work/log"; exit 1; }
page=$(realpath "$artifacts")/report.html
python3 -m json.tool "$artifacts/report.json" >/dev/null
size=$(stat -c %s "$page")
((size < 1048576)) || { echo "the page has $size bytes" >&2; exit 1; }

# look NAME WIDTH HEIGHT: takes a screenshot. The console must stay empty.
look() {
  HOME=$work timeout 60 "$browser" --headless --no-sandbox --disable-gpu \
    --hide-scrollbars --user-data-dir="$work/profile" --enable-logging=stderr \
    --v=0 --window-size="$2,$3" --screenshot="$artifacts/$1.png" \
    "file:$page" >"$work/console" 2>&1 ||
    { cat "$work/console"; exit 1; }
  if grep CONSOLE "$work/console"; then
    echo "the console is not empty" >&2
    exit 1
  fi
  [ -s "$artifacts/$1.png" ]
}
look phone 420 3200
look window 1280 2400
look screen 1920 2400

# Checks the document as the browser parsed it.
HOME=$work timeout 60 "$browser" --headless --no-sandbox --disable-gpu \
  --user-data-dir="$work/profile" --dump-dom "file:$page" \
  >"$work/dom" 2>/dev/null
for id in size changed mean least verdict groups heat worst histograms sizes fused; do
  grep -q "id=\"$id\"" "$work/dom" || { echo "no #$id" >&2; exit 1; }
done
rows=$(sed -n '/id="worst"/,/<\/section>/p' "$work/dom" |
  grep -c '<td class="name">')
((rows == 10)) || { echo "$rows worst tensors" >&2; exit 1; }
grep -q '<svg' "$work/dom"
grep -Eq '<td class="q[0-6]( low)?" title="' "$work/dom"
if [ $# -lt 3 ]; then
  sed -n '/id="worst"/,/<\/section>/p' "$work/dom" | grep -m 1 '<td' |
    grep -q 'shares a scale with model.layers.2.self_attn.q_proj' ||
    { echo "the planted weight is not the worst" >&2; exit 1; }
fi
echo "$size bytes; see phone.png, window.png and screen.png in $artifacts"
