# shellcheck shell=bash disable=SC2154
# Environments of Python packages as lock files say, for the run.sh here and in
# engines/, which set: here, the folder with locks/; work, where environments
# lie; offline, not empty if nothing may be installed; base, the environment
# behind which the others find packages.

# environment NAME: fails where it is not there and cannot be made. One that is
# complete is left alone.
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
