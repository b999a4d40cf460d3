#!/bin/sh
# Causes faults from faults.toml and measures their effect on clients.
#
#   tests/soak/fault.sh NAME... | --class NAME | --all | --list
#                       [--build FOLDER] [--device cuda:0] [--json FILE]
#                       [--page FILE]
exec /usr/bin/python3 -B "$(dirname "$0")/fault.py" "$@"
