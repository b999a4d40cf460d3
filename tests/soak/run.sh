#!/bin/sh
# Runs every kind of call for hours, with every kind of fault, and looks for
# leaks (see README.md).
#
#   tests/soak/run.sh HOURS [--build FOLDER] [--device NAME] [--results FOLDER]
#                     [--seed N] [--pace FACTOR] [--without FAULT]
#
# HOURS may be a fraction. The test ends by itself, with exit code 0 if every
# answer was right, the counts agree and memory did not grow.
exec /usr/bin/python3 -B "$(dirname "$0")/soak.py" "$@"
