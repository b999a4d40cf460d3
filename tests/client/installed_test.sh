#!/bin/bash
# Installs the SDK to a fresh prefix and builds client/example against it, using
# only find_package and no other file of this tree, with the kernels and without
# them. Runs the example with local devices and with a server.
#
#   installed_test.sh <build dir> <source dir> <quantd> <cmake> <compiler>
set -euo pipefail
build=$1 source=$2 quantd=$3 cmake=$4 compiler=$5

work=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT

"$cmake" --install "$build" --component sdk --prefix "$work/prefix" >/dev/null

# Compiler flags of this build must not reach users.
if ! find "$work/prefix" -name quantdTargets.cmake | grep -q . ||
  grep -rn --include='*.cmake' -e '-Wall' -e '-Werror' -e fsanitize \
    -e "$source" -e "$build" "$work/prefix"; then
  echo "the package contains flags or paths of this build" >&2
  exit 1
fi
headers=$work/prefix/include
if grep -rnE '#include [<"](grpc|google/|quantd\.pb|nlohmann|fmt)' "$headers"; then
  echo "a public header includes a private dependency" >&2
  exit 1
fi
# The installed headers are exactly those of include/quantd.
if ! diff <(cd "$source/include" && find . -type f | sort) \
    <(cd "$headers" && find . -type f | sort) ||
  find "$work/prefix" -name '*.h' -not -path "$headers/quantd/*" | grep .; then
  echo "the package has other headers than include/quantd" >&2
  exit 1
fi

# Each header compiles on its own.
while read -r header; do
  "$compiler" -std=c++20 -fsyntax-only -I"$headers" -x c++ "$header" || {
    echo "${header#"$headers"/} does not compile on its own" >&2
    exit 1
  }
done < <(find "$headers" -name '*.h')

# For clients in other languages: the messages compile on their own, and the
# pages that they name are installed.
proto=$work/prefix/share/quantd/proto
protoc --proto_path="$proto" --descriptor_set_out="$work/descriptor" \
  quantd.proto
for page in $(grep -o '[A-Z_]*\.md' "$proto/quantd.proto" | sort -u); do
  [ -s "$proto/$page" ] || {
    echo "the package lacks $page, which quantd.proto names" >&2
    exit 1
  }
done

# A machine with our build dependencies may not have make.
if command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
# compile DIRECTORY: builds the program there into DIRECTORY/build.
compile() {
  "$cmake" -S "$1" -B "$1/build" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCMAKE_CXX_FLAGS="${EXAMPLE_FLAGS:-}" >"$work/log" ||
    { cat "$work/log"; exit 1; }
  "$cmake" --build "$1/build" >"$work/log" || { cat "$work/log"; exit 1; }
}
cp -r "$source/client/example" "$work/example"
compile "$work/example"

# check COMMAND...: runs an example that writes a tensor file and checks its
# output.
check() {
  local out
  rm -f "$work/w.safetensors"
  out=$("$@" "$work/w.safetensors")
  echo "$out"
  case $out in
    "65536 bytes became "*", SQNR "*" dB") ;;
    *) echo "unexpected output" >&2; exit 1 ;;
  esac
  [ -s "$work/w.safetensors" ]
}
check "$work/example/build/quantize_tensor" local
"$work/example/build/every_way" local | tee "$work/log"
grep -q 'a vector: by local' "$work/log"
grep -q 'AllocateHost: by local' "$work/log"

# Without the kernels, the example can only use servers, and its error says so.
cp -r "$source/client/example" "$work/remote"
sed -i -e 's/ COMPONENTS local//' -e 's/quantd::local/quantd::client/' \
  "$work/remote/CMakeLists.txt"
sed -i -e 's/CreateClient(/Client::Create(/' -e 's|quantd/local\.h|quantd/client.h|' \
  "$work"/remote/*.cc
compile "$work/remote"
if "$work/remote/build/quantize_tensor" local "$work/w.safetensors" \
    2>"$work/log" || ! grep -q 'link quantd::local' "$work/log"; then
  cat "$work/log"
  echo "a client without kernels does not say what is missing" >&2
  exit 1
fi
ls -l "$work"/{example,remote}/build/quantize_tensor

"$quantd" --listen 127.0.0.1:0 --port-file "$work/port" \
  --memory-socket "$work/memory" \
  >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 300); do
  [ -s "$work/port" ] && break
  kill -0 "$server" || { cat "$work/server.log"; exit 1; }
  sleep 0.1
done
check "$work/remote/build/quantize_tensor" "$(cat "$work/port")"
check "$work/example/build/quantize_tensor" "$(cat "$work/port")"
"$work/example/build/every_way" "$(cat "$work/port")" "$work/memory" |
  tee "$work/log"
grep -q 'a vector: by tcp' "$work/log"
grep -q 'AllocateHost: by shared' "$work/log"
