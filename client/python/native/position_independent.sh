#!/usr/bin/env bash
# Makes what a distribution's archives lack of being fit for a shared object.
#
#   position_independent.sh DIRECTORY ARCHIVE...
#
# Archives are compiled for programs. A Python module is a shared object, and the
# linker takes all of gRPC, protobuf and Abseil for one but for the few sources
# that keep variables of a thread: those are compiled again, from the source
# packages of the very versions that are installed, into DIRECTORY/*.o. An object
# of the same name that is there is kept.
set -euo pipefail

directory=$1
shift
mkdir -p "$directory"
directory=$(realpath "$directory")

fail() {
  echo "position_independent.sh: $*" >&2
  exit 1
}

# unfit ARCHIVE: its members that address a variable of a thread as only a
# program may.
unfit() {
  readelf -rW "$1" 2>/dev/null | awk '
    /^File: / { sub(/.*\(/, "", $2); sub(/\).*/, "", $2); member = $2 }
    /R_X86_64_TPOFF32|R_AARCH64_TLSLE_/ { print member }' | sort -u
}

missing=()
for archive in "$@"; do
  for member in $(unfit "$archive"); do
    [ -s "$directory/$member" ] || missing+=("$archive:$member")
  done
done
[ "${#missing[@]}" -gt 0 ] || exit 0

for tool in apt-get dpkg-query dpkg-source; do
  command -v "$tool" >/dev/null || fail "${#missing[@]} sources of archives" \
    "have to be compiled again, which needs $tool (package dpkg-dev):" \
    "${missing[*]##*/}"
done

# Sources come from where packages come from, by a list that is ours alone, so
# that the machine's own stays as it is.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{parts,lists/partial,cache/archives/partial,source}
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  [ -f "$list" ] || continue
  case $list in
    *.sources) sed 's/^Types:.*/Types: deb-src/' "$list" ;;
    *.list) sed -n 's/^deb /deb-src /p' "$list" ;;
    *) continue ;;
  esac >"$work/parts/$(basename "$list")"
done
cat >"$work/apt.conf" <<END
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$work/parts";
Dir::State::Lists "$work/lists";
Dir::Cache "$work/cache";
APT::Sandbox::User "$(id -un)";
END
export APT_CONFIG=$work/apt.conf
apt-get update -qq || true  # one list of many may fail

for entry in "${missing[@]}"; do
  archive=${entry%:*} member=${entry##*:}
  package=$(dpkg-query -S "$(realpath "$archive")" | cut -d: -f1)
  # shellcheck disable=SC2016  # what dpkg-query expands
  read -r source version < <(dpkg-query -W \
    -f '${source:Package} ${source:Version}\n' "$package")
  unpacked=$work/source/$source
  if [ ! -d "$unpacked" ]; then
    (cd "$work/source" &&
      apt-get source -qq --download-only "$source=$version" &&
      dpkg-source --no-check -x "${source}_${version#*:}.dsc" "$unpacked") \
      >"$work/log" 2>&1 || {
      cat "$work/log" >&2
      fail "no source of $source $version, of which $member is compiled again"
    }
  fi
  name=${member%.o}
  found=$(find "$unpacked" -name "${name%.cc}.cc" -not -path '*/.pc/*')
  [ "$(wc -l <<<"$found")" = 1 ] || fail "which of these is $member? $found"
  # The installed headers, as whoever links the archive has them; of the source
  # what is not installed.
  "${CXX:-c++}" -std=c++17 -O2 -fPIC -ffunction-sections -fdata-sections \
    -idirafter "$unpacked" -idirafter "$unpacked/src" \
    -c "$found" -o "$directory/$member.part"
  mv "$directory/$member.part" "$directory/$member"
  echo "$source $version: $member"
done
