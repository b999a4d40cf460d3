#!/bin/bash
# The report of a model in a browser: looked at, with no word on its console.
#
#   model_report_test.sh <quantctl> <artifacts dir> [MODEL]
#
# MODEL: instead of one that is made here. Exits with 77, which is a skip, where
# there is no Chromium.
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

# With a weight that is tiny beside those that it shares a scale with, for the
# page to have something to say.
if [ -z "$model" ]; then
  model=$work/model
  mkdir "$model"
  python3 - "$model" <<'PY'
import array, json, random, struct, sys
random.seed(1)
tensors = {}
for layer in range(4):
    for name, rows, cols in (("self_attn.q_proj", 64, 64),
                             ("self_attn.k_proj", 32, 64),
                             ("self_attn.v_proj", 32, 64),
                             ("self_attn.o_proj", 64, 64),
                             ("mlp.gate_proj", 128, 64),
                             ("mlp.up_proj", 128, 64),
                             ("mlp.down_proj", 64, 128)):
        numbers = array.array("f", (random.gauss(0, .02)
                                    for _ in range(rows * cols)))
        if layer == 2 and name == "self_attn.q_proj":
            numbers[5] = 3.0
        if layer == 2 and name == "self_attn.k_proj":
            numbers = array.array("f", (x / 1000 for x in numbers))
        tensors[f"model.layers.{layer}.{name}.weight"] = (rows, cols, numbers)
header, data = {}, b""
for name, (rows, cols, numbers) in tensors.items():
    raw = numbers.tobytes()
    header[name] = {"dtype": "F32", "shape": [rows, cols],
                    "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
head = json.dumps(header).encode()
head += b" " * (-len(head) % 8)
with open(sys.argv[1] + "/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(head)) + head + data)
with open(sys.argv[1] + "/config.json", "w") as f:
    json.dump({"model_type": "llama", "hidden_size": 64}, f)
PY
fi

"$quantctl" convert "$model" "$work/made" --server local:cpu \
  --report "$artifacts" >"$work/log" || { cat "$work/log"; exit 1; }
page=$(realpath "$artifacts")/report.html
python3 -m json.tool "$artifacts/report.json" >/dev/null
size=$(stat -c %s "$page")
((size < 1048576)) || { echo "the page has $size bytes" >&2; exit 1; }

# look NAME WIDTH HEIGHT: its console must stay empty.
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
look wide 1280 2400
look narrow 500 3200

# What the browser made of it.
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
    { echo "the smallest is not the worst" >&2; exit 1; }
fi
echo "$size bytes; see $artifacts/wide.png and narrow.png"
