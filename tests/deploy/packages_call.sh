#!/usr/bin/env bash
# Makes a call with a small file through quantctl, and checks that the server
# answers. WORDs are passed to quantctl.
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
[ -s "$work/x.safetensors" ] || { echo "no output was written"; exit 1; }
