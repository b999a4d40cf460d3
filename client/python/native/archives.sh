#!/usr/bin/env bash
# Makes archives of Abseil, protobuf and RE2 that can be linked into a shared
# object.
#
#   archives.sh DIRECTORY
#
# A distribution compiles its static archives for programs. gRPC's archives can
# also be linked into a shared object, such as a Python module. Those of Abseil,
# protobuf and RE2 cannot, because of how they address thread-local variables and
# variables of the C++ library. They are compiled again from the source packages
# of the installed versions, into DIRECTORY/lib*.a. Existing archives are kept.
set -euo pipefail

mkdir -p "$1"
directory=$(realpath "$1")
jobs=$(nproc)
launcher=$(command -v ccache || true)
export CCACHE_BASEDIR=$directory CCACHE_NOHASHDIR=1
# Makes the archives independent of the path of the directory.
flags="-O2 -ffile-prefix-map=$directory=."

fail() {
  echo "archives.sh: $*" >&2
  exit 1
}

# unpack PACKAGE: unpacks its source into $directory/PACKAGE. It downloads with
# package lists of its own, so that the machine's lists stay unchanged.
unpack() {
  local work=$directory/apt list source version
  command -v dpkg-source >/dev/null || fail "dpkg-source is missing: install" \
    "dpkg-dev, or link with shared libraries (QUANTD_STATIC=OFF)"
  if [ ! -s "$work/apt.conf" ]; then
    mkdir -p "$work"/{parts,lists/partial,cache/archives/partial}
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
      case $list in
        *.sources) sed 's/^Types:.*/Types: deb-src/' "$list" ;;
        *.list) sed -n 's/^deb /deb-src /p' "$list" ;;
        *) continue ;;
      esac >"$work/parts/$(basename "$list")" 2>/dev/null || true
    done
    cat >"$work/apt.conf" <<END
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$work/parts";
Dir::State::Lists "$work/lists";
Dir::Cache "$work/cache";
APT::Sandbox::User "$(id -un)";
END
    # The needed list may be downloaded even if another one fails.
    APT_CONFIG=$work/apt.conf apt-get update -qq || true
  fi
  # shellcheck disable=SC2016  # dpkg-query expands it
  read -r source version < <(dpkg-query -W \
    -f '${source:Package} ${source:Version}\n' "$1")
  rm -rf "${directory:?}/$1"
  (cd "$work" &&
    APT_CONFIG=$work/apt.conf apt-get source -qq --download-only \
      "$source=$version" &&
    dpkg-source --no-check -x "${source}_${version#*:}.dsc" "$directory/$1") \
    >"$directory/log" 2>&1 ||
    { cat "$directory/log" >&2; fail "no source of $source $version"; }
  echo "$source $version"
}

# build PACKAGE TARGET OPTION...: builds a target with the package's CMake files
# as position-independent code, and copies the archives to $directory.
build() {
  local source=$directory/$1 target=$2
  shift 2
  {
    cmake -S "$source" -B "$source/build" -DCMAKE_BUILD_TYPE=None \
      -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_CXX_STANDARD=17 \
      -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF \
      -DCMAKE_CXX_COMPILER="${CXX:-c++}" \
      -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" "$@" &&
      cmake --build "$source/build" --parallel "$jobs" --target "$target"
  } >"$directory/log" 2>&1 || { tail -30 "$directory/log" >&2; fail "$source"; }
  find "$source/build" -name 'lib*.a' -exec cp {} "$directory" \;
}

# RE2's source package lacks some tables, which another package generates, so its
# CMake files cannot be used. The objects with these tables contain no code and
# are taken from the installed archive.
build_re2() {
  local source=$directory/libre2-dev archive member file
  archive=$(dpkg-query -L libre2-dev | grep '/libre2\.a$')
  mkdir -p "$source/build"
  (cd "$source/build" && ar x "$archive")
  for member in "$source"/build/*.o; do
    file=$(basename "$member" .o).cc
    for file in "$source"/{re2,util}/"$file"; do
      [ ! -f "$file" ] || $launcher "${CXX:-c++}" -std=c++17 $flags -fPIC \
        -I "$source" -c "$file" -o "$member"
    done
  done
  ar rcs "$directory/libre2.a" "$source"/build/*.o
}

[ -s "$directory/libprotobuf.a" ] || {
  unpack libprotobuf-dev
  build libprotobuf-dev libprotobuf -Dprotobuf_BUILD_TESTS=OFF \
    -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_BUILD_LIBPROTOC=OFF
}
[ -s "$directory/libabsl_base.a" ] || {
  unpack libabsl-dev
  build libabsl-dev all
}
[ -s "$directory/libre2.a" ] || {
  unpack libre2-dev
  build_re2
}
rm -rf "${directory:?}"/{apt,libprotobuf-dev,libabsl-dev,libre2-dev,log}
