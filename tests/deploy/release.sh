#!/usr/bin/env bash
# Tests the scripts of a release: deploy/sbom.py on a build, deploy/archive.sh,
# and the fast parts of deploy/release.sh.
#
#   tests/deploy/release.sh BUILD QUANTD
set -euo pipefail
build=${1:?BUILD} quantd=${2:?QUANTD}
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ ! -e "$build/build.ninja" ] || ! command -v dpkg-query >/dev/null; then
  echo "SKIPPED: no Ninja build, or no dpkg"
  exit 77
fi

sbom() { SOURCE_DATE_EPOCH=1700000000 "$source/deploy/sbom.py" "$@"; }
sbom "$build" quantd >"$work/a.spdx.json"
sbom "$build" quantd >"$work/b.spdx.json"
cmp "$work/a.spdx.json" "$work/b.spdx.json"
python3 - "$work/a.spdx.json" "$quantd" <<'END'
import hashlib, json, pathlib, sys
document = json.loads(pathlib.Path(sys.argv[1]).read_text())
packages = {p["SPDXID"]: p for p in document["packages"]}
assert len(packages) == len(document["packages"]), "a duplicate identifier"
assert document["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
(program,) = [p for p in document["packages"] if p["name"] == "quantd"]
digest = hashlib.sha256(pathlib.Path(sys.argv[2]).read_bytes()).hexdigest()
assert program["checksums"][0]["checksumValue"] == digest, "the checksum of a different program"
for relation in document["relationships"]:
  for end in ("spdxElementId", "relatedSpdxElement"):
    assert relation[end] in packages or relation[end] == "SPDXRef-DOCUMENT"
# Well-known dependencies must be listed: linked libraries, and header-only
# ones.
names = {p["name"] for p in document["packages"]}
linked = {
    packages[r["relatedSpdxElement"]]["name"].rstrip("0123456789.")
    for r in document["relationships"] if r["relationshipType"].endswith("_LINK")
}
for library in ("libgrpc", "libprotobuf", "libssl"):
  assert any(n.startswith(library) for n in linked), (library, linked)
for header in ("libcli11-dev", "libspdlog-dev"):
  assert header in names, (header, names)
assert all(
    p["externalRefs"][0]["referenceLocator"].startswith("pkg:deb/")
    for p in document["packages"] if p["name"] != "quantd"
)
END
for bad in "$build no-such-program" "$work quantd"; do
  # shellcheck disable=SC2086
  if sbom $bad >"$work/out" 2>"$work/err"; then
    echo "sbom.py accepted: $bad"
    exit 1
  fi
  grep -q '^sbom.py: ' "$work/err" || { cat "$work/err"; exit 1; }
done

if ! git -C "$source" rev-parse --verify -q HEAD >/dev/null 2>&1; then
  echo "no archive: the sources are not a git repository"
  exit 0
fi
# A clone makes the same archive at a later time and with a different umask.
"$source/deploy/archive.sh" "$work/a.tar.xz"
git clone -q --no-hardlinks "$source" "$work/clone"
git -C "$work/clone" checkout -q "$(git -C "$source" rev-parse HEAD)"
(umask 077 && "$work/clone/deploy/archive.sh" "$work/b.tar.xz")
cmp "$work/a.tar.xz" "$work/b.tar.xz"
[ "$(tar -tf "$work/a.tar.xz" | grep -vc '/$')" = \
  "$(git -C "$source" ls-tree -r --name-only HEAD | wc -l)" ]

release() { "$source/deploy/release.sh" "$@" >"$work/out" 2>"$work/err"; }
release --only source "$work/release"
(cd "$work/release" && sha256sum --quiet -c SHA256SUMS)
cmp "$work/a.tar.xz" "$work"/release/*-source.tar.xz
# refused CODE DESCRIPTION ARGUMENT...: release.sh must exit with CODE.
refused() {
  local code=0
  release "${@:3}" || code=$?
  [ "$code" = "$1" ] || { echo "release.sh did not exit with $1 for $2"; cat "$work/err"; exit 1; }
}
refused 2 "a folder that is not empty" --only source "$work/release"
refused 2 "an unknown kind" --only eggs "$work/other"
