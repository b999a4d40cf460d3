#!/usr/bin/env bash
# Runs in the root where packages are tested. Installs the packages in DIR,
# unless they are unpacked in ROOT. Serves a call, and checks the removal.
#
#   packages_use.sh DIR [ROOT]
set -euo pipefail
dir=$1 root=${2:-}

user=()
if [ -z "$root" ]; then
  dpkg -i "$dir"/*.deb >"$dir/dpkg.log" 2>&1 || { cat "$dir/dpkg.log"; exit 1; }
  getent passwd quantd >/dev/null || { echo "no user quantd"; exit 1; }
  systemd-analyze verify --man=no quantd.service
  user=(setpriv --reuid quantd --regid quantd --clear-groups --no-new-privs
    --bounding-set=-all --inh-caps=-all)
fi

ports=$(mktemp -d)
chmod 0777 "$ports"
"${user[@]}" "$root/usr/bin/quantd" --listen 127.0.0.1:0 \
  --port-file "$ports/port" 2>"$ports/log" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
for _ in {1..200}; do
  [ ! -s "$ports/port" ] || break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
[ -s "$ports/port" ] || { cat "$ports/log"; echo "the server does not start"; exit 1; }
address=$(cat "$ports/port")
if [ -z "$root" ]; then
  [ "$(stat -c %U "/proc/$server")" = quantd ] ||
    { echo "the server runs as a different user"; exit 1; }
fi
"$(dirname "$0")/packages_call.sh" "$root/usr/bin/quantctl" --server "$address"
kill -TERM "$server"
wait "$server" || { echo "the server ended with an error"; exit 1; }
trap - EXIT

if [ -z "$root" ]; then
  # Builds the example with the SDK that dpkg installed.
  {
    cmake -S "$dir/example" -B "$dir/built" -G Ninja -DCMAKE_BUILD_TYPE=Debug
    cmake --build "$dir/built" --target quantize_tensor
  } >"$dir/cmake.log" 2>&1 || { cat "$dir/cmake.log"; exit 1; }
  "$dir/built/quantize_tensor" local "$dir/made.safetensors"
  dpkg --purge quantd quantctl libquantd-dev >"$dir/dpkg.log" 2>&1 ||
    { cat "$dir/dpkg.log"; exit 1; }
  [ ! -e /usr/bin/quantd ] || { echo "quantd is still installed"; exit 1; }
  echo "installed, served a call as user quantd, linked the example, and purged"
else
  echo "unpacked, and served a call"
fi
