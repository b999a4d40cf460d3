#!/usr/bin/env bash
# Installs the files of deploy/release.sh in an empty Debian root file system, as a
# user would, and uses them. Nothing is compiled.
#
#   tests/deploy/clean_root.sh [--root BASE] [--slowness N] FOLDER
#
#   FOLDER       output of release.sh: wheel, debs and tarball are tested if present
#   --root BASE  a root that deploy/debian-root.sh made with python3-venv, to copy;
#                by default one is made, which takes a minute or two
#
# Each installation may take N minutes (default 1) and four commands. Wheels and
# debs download dependencies from this machine's sources. Exits with 77 without
# root permissions or debootstrap.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
base='' made='' slowness=1
while [ $# -gt 0 ]; do
  case $1 in
    --root) base=$(realpath "$2"); shift ;;
    --slowness) slowness=$2; shift ;;
    --help | -h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) made=$(realpath "$1") ;;
  esac
  shift
done
[ -n "$made" ] || { echo "clean_root: FOLDER is missing (try --help)" >&2; exit 2; }
skip() { echo "SKIPPED: $*: THE RELEASE IS NOT INSTALLED"; exit 77; }
[ "$(id -u)" = 0 ] || skip "not root"
[ -n "$base" ] || command -v debootstrap >/dev/null || skip "no debootstrap"

work=$(mktemp -d)
root=$work/root
finish() {
  ! mountpoint -q "$root/proc" || umount "$root/proc"
  rm -rf --one-file-system "$work"
}
trap finish EXIT
if [ -z "$base" ]; then
  base=$work/base
  "$source/deploy/debian-root.sh" "$base" python3-venv >"$work/log" 2>&1 ||
    { tail -3 "$work/log"; skip "no root file system can be made"; }
fi

# A model of MiniLM's shape with random weights: six layers of width 384.
/usr/bin/python3 - "$work/model" <<'PY'
import json, pathlib, sys
import numpy as np
folder = pathlib.Path(sys.argv[1])
folder.mkdir()
(folder / "config.json").write_text(json.dumps({
    "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 384,
    "num_hidden_layers": 6, "num_attention_heads": 12, "vocab_size": 30522,
    "intermediate_size": 1536, "torch_dtype": "float32"}))
shapes = {"embeddings.word_embeddings.weight": (30522, 384)}
for n in range(6):
  layer = f"encoder.layer.{n}."
  for name in ("query", "key", "value"):
    shapes[f"{layer}attention.self.{name}.weight"] = (384, 384)
  shapes[f"{layer}attention.output.dense.weight"] = (384, 384)
  shapes[f"{layer}intermediate.dense.weight"] = (1536, 384)
  shapes[f"{layer}output.dense.weight"] = (384, 1536)
header, at = {}, 0
for name, shape in shapes.items():
  size = 4 * shape[0] * shape[1]
  header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
  at += size
text = json.dumps(header).encode()
random = np.random.default_rng(1)
with open(folder / "model.safetensors", "wb") as out:
  out.write(len(text).to_bytes(8, "little") + text)
  for shape in shapes.values():
    out.write(random.standard_normal(shape, np.float32) * np.float32(0.02))
PY
cat >"$work/example.py" <<'PY'
import numpy as np
import quantd
q = quantd.connect("local")
x = np.random.default_rng(0).standard_normal((256, 512)).astype(np.float32)
t = q.quantize(x, "nvfp4", usage="both", rht="columnwise", statistics=True)
assert np.corrcoef(x.ravel(), t.dequantize("f32").ravel())[0, 1] > 0.99
print(t)
PY

failed=0
# way NAME FILES COMMAND...: runs the commands in a copy of the root, with the
# files in /tmp.
way() {
  local name=$1 files=$2 start milliseconds command
  shift 2
  compgen -G "$made/$files" >/dev/null ||
    { echo "SKIPPED: no $files: $name IS NOT TESTED"; return; }
  rm -rf --one-file-system "$root"
  cp -a --reflink=auto "$base" "$root"
  # The copy reaches the same package indexes as this machine.
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  # shellcheck disable=SC2086  # a pattern
  (cd "$made" && cp $files "$root/tmp/")
  cp -r "$work/model" "$work/example.py" "$root/tmp/"
  mount -t proc proc "$root/proc"
  ! chroot "$root" /bin/sh -c 'command -v cc c++ protoc cmake' ||
    { echo "the root has a compiler"; exit 1; }
  start=$(date +%s%N)
  for command in "$@"; do
    chroot "$root" env HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
      /bin/bash -c "cd /tmp; $command" >"$work/log" 2>&1 ||
      { echo "FAILED: $name: $command"; tail -20 "$work/log"; failed=1; break; }
  done
  milliseconds=$((($(date +%s%N) - start) / 1000000))
  umount "$root/proc"
  [ -s "$root/tmp/out/config.json" ] || { echo "$name: no model"; failed=1; }
  printf '%-8s %d commands, %d.%d s\n' "$name" $# \
    $((milliseconds / 1000)) $((milliseconds / 100 % 10))
  [ $# -le 4 ] && [ $milliseconds -lt $((slowness * 60000)) ] ||
    { echo "FAILED: $name: too many commands or too slow"; failed=1; }
}

convert='quantctl convert model out --server local'
way wheel "quantd-*manylinux*.whl" 'python3 -m venv v' \
  'v/bin/pip install -q *.whl' "v/bin/$convert" \
  'v/bin/python example.py && v/bin/python -m quantd --version'
way deb "quant*.deb" 'apt-get update -q' \
  'DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends ./*.deb' \
  "$convert" 'quantd --version'
way tarball "quantctl-*.tar.gz" 'tar -xzf quantctl-*.tar.gz --strip-components=2' \
  "bin/$convert"
exit $failed
