#!/usr/bin/env bash
# Inside of the root where packages are tried: installs those of DIR, unless
# they lie unpacked below ROOT, serves a call and asks of the removal, too.
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
[ -s "$ports/port" ] || { cat "$ports/log"; echo "it does not serve"; exit 1; }
address=$(cat "$ports/port")
if [ -z "$root" ]; then
  [ "$(stat -c %U "/proc/$server")" = quantd ] ||
    { echo "it runs as somebody else"; exit 1; }
fi
"$(dirname "$0")/packages_call.sh" "$root/usr/bin/quantctl" --server "$address"
kill -TERM "$server"
wait "$server" || { echo "it did not end well"; exit 1; }
trap - EXIT

if [ -z "$root" ]; then
  # The SDK, from where dpkg put it and nowhere else.
  {
    cmake -S "$dir/example" -B "$dir/built" -G Ninja -DCMAKE_BUILD_TYPE=Debug
    cmake --build "$dir/built" --target quantize_tensor
  } >"$dir/cmake.log" 2>&1 || { cat "$dir/cmake.log"; exit 1; }
  "$dir/built/quantize_tensor" local "$dir/made.safetensors"
  dpkg --purge quantd quantctl libquantd-dev >"$dir/dpkg.log" 2>&1 ||
    { cat "$dir/dpkg.log"; exit 1; }
  [ ! -e /usr/bin/quantd ] || { echo "something stayed"; exit 1; }
  echo "installed, served as its own user, linked with, and purged"
else
  echo "unpacked, and served"
fi
