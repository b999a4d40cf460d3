#!/usr/bin/env bash
# Measures what good clients notice of every attack, with the edge proxy and
# without it, and writes JSON:
#
#   measure.sh --pack BUILD FOLDER       packs everything that another machine
#                                        needs, with HAProxy and libraries except
#                                        for the C library
#   FOLDER/measure.sh [RESULT.json [OPTION OF attack_test...]]
#                                        measures on the other machine
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fail() { echo "measure.sh: $*" >&2; exit 1; }

if [ "${1:-}" = --pack ]; then
  [ $# = 3 ] || fail "--pack BUILD FOLDER"
  build=$2 folder=$3
  haproxy=${HAPROXY:-$(PATH=$PATH:/usr/sbin command -v haproxy)} ||
    fail "no haproxy"
  mkdir -p "$folder/bin" "$folder/lib"
  for program in server/quantd tests/attack/quantd_attacker \
    tests/attack/attack_test; do
    strip -o "$folder/bin/${program##*/}" "$build/$program" ||
      fail "build attack_test first"
  done
  cp "$haproxy" "$(command -v openssl)" "$folder/bin/"
  # The C library must match the loader of the other machine.
  ldd "$folder"/bin/* | awk '$2 == "=>" {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv)\.so' |
    xargs cp -Lt "$folder/lib"
  cp "$here/../../../deploy/edge/haproxy.cfg" \
    "$here/../../../deploy/make-certs.sh" "$0" "$folder/"
  printf '[req]\ndistinguished_name = name\n[name]\n' >"$folder/openssl.cnf"
  du -sh "$folder"
  exit
fi

[ -x "$here/bin/attack_test" ] || fail "this folder is not packed (use --pack BUILD FOLDER)"
export PATH=$here/bin:$PATH LD_LIBRARY_PATH=$here/lib HAPROXY=$here/bin/haproxy
export OPENSSL_CONF=$here/openssl.cnf EDGE_CONFIGURATION=$here/haproxy.cfg
export ATTACK_MAKE_CERTS=$here/make-certs.sh
result=${1:-attack.json}
exec "$here/bin/attack_test" --honest --gtest_output="json:$result" "${@:2}"
