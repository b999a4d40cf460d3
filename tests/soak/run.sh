#!/bin/sh
# A load of every kind of call for hours, with faults of every kind, and its
# leaks: README.md.
#
#   tests/soak/run.sh HOURS [--build FOLDER] [--device NAME] [--results FOLDER]
#                     [--seed N] [--pace FACTOR] [--without FAULT]
#
# HOURS may be a fraction. Ends by itself, with 0 if every answer was right,
# counts agree and nothing grew.
exec /usr/bin/python3 -B "$(dirname "$0")/soak.py" "$@"
