#!/bin/sh
# Installs the packages that building and testing quantd needs, from the
# distribution. Debian 12 and Ubuntu 24.04 use the same names.
#
#   deploy/install-deps.sh            install missing packages (sudo if not root)
#   deploy/install-deps.sh --check    only list missing packages; exit 1 if any
#   deploy/install-deps.sh --checks   also install tools of tests/checks.sh
#   deploy/install-deps.sh --list     print the packages and their purposes
set -eu

packages='
g++|the compiler
cmake|the build
ninja-build|the build
ccache|rebuilds in seconds
git|the version of a build
pkg-config|finds gRPC'"'"'s own dependencies
libgrpc++-dev|the server and the client
protobuf-compiler-grpc|code for the service
libssl-dev|TLS certificates, and hashes of tokens
openssl|certificates for trying TLS, and for its tests
libprotobuf-dev|messages
protobuf-compiler|code for messages
libabsl-dev|status, spans, mutexes
libspdlog-dev|log lines
libfmt-dev|formatting, used by spdlog
libcli11-dev|command lines
nlohmann-json3-dev|JSON reports
libre2-dev|regular expressions for names, in linear time
libxxhash-dev|hashes for resuming a conversion
libgtest-dev|tests
libgmock-dev|tests
python3|the test with stock Python stubs
python3-grpcio|the tests of Python stubs and of the Python package
python3-protobuf|the tests of Python stubs and of the Python package
python3-numpy|the tests of Python stubs and of the Python package
python3-pytest|the tests of the Python package
'

# Packages for checks. Building and running quantd does not need them.
checks='
clang-format-14|formats sources, in one version for all
clang|the libFuzzer programs for untrusted input
llvm|line coverage of the libFuzzer programs
shellcheck|mistakes in scripts
codespell|mistakes in words
dpkg-dev|source packages of libraries that the Python wheel links
python3-venv|the Python wheel
haproxy|the edge proxy, and its test
curl|requests that no gRPC client would make
'
case "${1:-}" in
  --checks | --list) packages=$packages$checks ;;
  '' | --check) ;;
  *) echo "install-deps: unknown option $1" >&2; exit 2 ;;
esac

missing=''
for line in $(printf '%s' "$packages" | sed 's/ /~/g'); do
  name=${line%%|*}
  case "${1:-}" in
    --list) printf '%-24s %s\n' "$name" "$(printf '%s' "${line#*|}" | tr '~' ' ')" ;;
    *) dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' \
         || missing="$missing $name" ;;
  esac
done
[ "${1:-}" = --list ] && exit 0

if [ -z "$missing" ]; then
  echo "dependencies: all installed"
  exit 0
fi
echo "dependencies missing:$missing"
[ "${1:-}" = --check ] && exit 1

sudo=''
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-deps: run this as root, or install: $missing" >&2
    exit 1
  fi
  sudo=sudo
fi
$sudo apt-get update -q
# shellcheck disable=SC2086  # splits into one word per package
$sudo env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -q --no-install-recommends $missing
