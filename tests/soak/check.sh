#!/bin/sh
# The short form, a test with label long: less than a minute of the soak test, or
# one or two faults of each class.
#
#   check.sh soak|faults BUILD
set -eu
here=$(dirname "$0")
case $1 in
  soak) exec "$here/run.sh" 0.0125 --build "$2" ;;
  faults) exec "$here/fault.sh" --build "$2" server-killed-one-of-two \
    device-lost-alone device-hangs-one-of-two network-cut \
    memory-region-taken-away disk-log-reader-gone clock-forward clock-back-under-device-fault \
    certificate-half-replaced client-killed ;;
  *) echo "check.sh: expected soak or faults" >&2; exit 2 ;;
esac
