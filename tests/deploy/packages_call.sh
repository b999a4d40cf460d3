#!/usr/bin/env bash
# A call that a server answers: a small file, through quantctl, which gets the
# further words.
#
#   packages_call.sh QUANTCTL [WORD...]
set -euo pipefail
quantctl=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 - "$work/x.npy" <<'PY'
import struct, sys
head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (32, 64), }\n"
with open(sys.argv[1], "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
    out.write(struct.pack("<2048f", *range(2048)))
PY
"$quantctl" quantize "$work/x.npy" --format nvfp4 \
  --output "$work/x.safetensors" "$@"
[ -s "$work/x.safetensors" ] || { echo "nothing came back"; exit 1; }
