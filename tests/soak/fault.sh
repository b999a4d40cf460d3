#!/bin/sh
# Causes the faults of faults.toml and measures how they affect clients.
#
#   tests/soak/fault.sh NAME... | --class NAME | --all | --list
#                       [--build FOLDER] [--device cuda:0] [--json FILE]
#                       [--page FILE]
exec /usr/bin/python3 -B "$(dirname "$0")/fault.py" "$@"
