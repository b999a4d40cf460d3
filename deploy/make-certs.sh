#!/bin/sh
# Makes a throw-away CA and certificates for a server and a client, for trying
# TLS and mTLS. Not for production: the CA's key is stored beside the others.
#
#   deploy/make-certs.sh DIRECTORY [NAME...]
#
# NAME is a DNS name or IP address by which clients connect to the server
# (default: localhost 127.0.0.1 ::1). The script writes ca.pem, server.pem,
# server.key, client.pem and client.key into DIRECTORY. Only the owner can read
# the keys. An existing CA is reused: running the script again renews the
# certificates, and clients keep trusting them. Each file is replaced
# atomically. Certificates are valid for DAYS days (default 30), and the CA ten
# times as long.
set -eu

case "${1:-}" in
  ''|-h|--help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$0"; exit 0 ;;
esac
directory=$1
shift
[ $# -gt 0 ] || set -- localhost 127.0.0.1 ::1
days=${DAYS:-30}
command -v openssl >/dev/null || {
  echo "make-certs: needs openssl (deploy/install-deps.sh installs it)" >&2
  exit 1
}
umask 077
mkdir -p "$directory"
cd "$directory"
draft=$(mktemp -d ./draft.XXXXXX)
trap 'rm -rf "$draft"' EXIT

# quietly COMMAND...: shows openssl's output only if it fails.
quietly() {
  "$@" 2>"$draft/said" || { cat "$draft/said" >&2; exit 1; }
}
key() { quietly openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }

if [ ! -s ca.key ] || [ ! -s ca.pem ]; then
  key "$draft/ca.key"
  quietly openssl req -x509 -new -key "$draft/ca.key" -out "$draft/ca.pem" \
    -days "$((days * 10))" -subj "/CN=quantd throw-away CA" \
    -addext "keyUsage=critical,keyCertSign,cRLSign"
  mv "$draft/ca.key" ca.key
  mv "$draft/ca.pem" ca.pem
fi

# certificate NAME SUBJECT EXTENSIONS
certificate() {
  key "$draft/$1.key"
  printf '%s\n' "basicConstraints=critical,CA:FALSE" \
    "keyUsage=critical,digitalSignature" "$3" >"$draft/extensions"
  quietly openssl req -new -key "$draft/$1.key" -subj "/CN=$2" \
    -out "$draft/request"
  quietly openssl x509 -req -in "$draft/request" -CA ca.pem -CAkey ca.key \
    -set_serial "0x$(openssl rand -hex 16)" -days "$days" \
    -extfile "$draft/extensions" -out "$draft/$1.pem"
  mv "$draft/$1.key" "$1.key"
  mv "$draft/$1.pem" "$1.pem"
}

names=
for name in "$@"; do
  case $name in
    *:*|[0-9]*.[0-9]*.[0-9]*.[0-9]*) kind=IP ;;
    *) kind=DNS ;;
  esac
  names="$names${names:+,}$kind:$name"
done
# clientAuth, because the server's health probe uses this certificate as a
# client.
certificate server "quantd server" "extendedKeyUsage=serverAuth,clientAuth
subjectAltName=$names"
certificate client "quantd client" "extendedKeyUsage=clientAuth"
chmod 644 ca.pem server.pem client.pem
echo "$directory: ca.pem server.pem server.key client.pem client.key for $names"
