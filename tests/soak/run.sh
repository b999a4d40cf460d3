#!/bin/sh
# A load of every kind of call for hours, beside everything that goes wrong, and
# what it leaves behind: README.md.
#
#   tests/soak/run.sh HOURS [--build FOLDER] [--device NAME] [--results FOLDER]
#                     [--seed N] [--pace FACTOR] [--without FAULT]
#
# HOURS may be a fraction. Ends by itself, with 0 where every answer was right,
# counts agree and nothing grew.
exec /usr/bin/python3 -B "$(dirname "$0")/soak.py" "$@"
