# shellcheck shell=bash disable=SC2154
# Python environments made from lock files, for run.sh in this folder and in
# engines/. Both set these variables before they source this file: here, the
# folder that holds locks/; work, where the environments are; offline, not empty
# if nothing may be installed; base, the environment whose packages the others
# see, too.

# environment NAME: makes the environment, unless it is complete. Fails where it
# is missing and cannot be made.
environment() {
  local name=$1 lock=$here/locks/$1.txt made=$work/$1
  if cmp -s "$lock" "$made/installed.txt"; then return 0; fi
  if [ -n "$offline" ]; then return 1; fi
  echo "installing $name: $(wc -l < "$lock") packages"
  rm -rf "$made"
  python3 -m venv "$made" || return 1
  if [ "$name" != "$base" ]; then
    "$work/$base/bin/python" -c 'import sysconfig
print(sysconfig.get_paths()["purelib"])' \
      > "$("$made/bin/python" -c 'import sysconfig
print(sysconfig.get_paths()["purelib"])')/base.pth"
  fi
  "$made/bin/pip" install --quiet --no-deps -r "$lock" || return 1
  cp "$lock" "$made/installed.txt"
}
