#!/bin/sh
# Makes a fault of faults.toml happen and measures what clients notice of it.
#
#   tests/soak/fault.sh NAME... | --class NAME | --all | --list
#                       [--build FOLDER] [--device cuda:0] [--json FILE]
#                       [--page FILE]
exec /usr/bin/python3 -B "$(dirname "$0")/fault.py" "$@"
