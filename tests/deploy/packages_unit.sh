#!/usr/bin/env bash
# Tests the unit, from its first start to its removal. Runs under systemd in the
# copy of this machine's root file system that packages_boot.sh booted, with the
# packages in DIR. Prints a line for each passed check, and ends with the first
# failure.
#
#   packages_unit.sh DIR
set -Eeuo pipefail
dir=$1
unit=quantd.service
env=/etc/quantd/quantd.env
shown() { echo "unit: $*"; }
fail() {
  echo "unit: FAILED: $*"
  systemctl status --no-pager --lines=0 "$unit" || true
  journalctl --no-pager --boot --lines=20 | cut -c1-300
  exit 1
}
trap '((BASH_SUBSHELL)) || fail "line $LINENO: $BASH_COMMAND"' ERR

said() { systemctl show -P "$1" "$unit"; }
is() { [ "$(said "$1")" = "$2" ] || fail "$1 is $(said "$1"), not $2"; }
# within SECONDS COMMAND...: repeats the command until it succeeds.
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS <= end)) || return 1
    sleep 0.1
  done
}
call() {
  local user=$1
  shift
  setpriv --reuid "$user" --regid "$user" --clear-groups \
    bash "$dir/packages_call.sh" quantctl --deadline 5 "$@" >"$dir/call" 2>&1
}
# The port file exists while the server serves.
up() { [ "$(said ActiveState)" = active ] && [ -s /run/quantd/port ]; }
served() {
  within 10 up || fail "the unit does not serve after 10 s"
  pid=$(said MainPID)
  call daemon --server "$(cat /run/quantd/port)" \
    --token-file "$dir/token" || { cat "$dir/call"; fail "no call is served"; }
}
# another PID: a different process than PID must serve.
another() {
  renewed() { [ "$(said MainPID)" != "$1" ] && up; }
  within 10 renewed "$1" || fail "no other process than $1 serves"
  served
}
# settings LINE...: writes the common settings and these lines.
settings() {
  printf '%s\n' QUANTD_PORT_FILE=/run/quantd/port \
    QUANTD_MEMORY_SOCKET=/run/quantd/memory \
    QUANTD_MEMORY_PEERS=quantd,daemon \
    QUANTD_TOKEN_FILE=/etc/quantd/tokens \
    QUANTD_RELOAD_INTERVAL_MS=3600000 "$@" >"$env"
}
# token WORD: sets the token of callers, and the server's list of tokens.
token() {
  printf %s "$1" >"$dir/token"
  sha256sum <"$dir/token" | cut -d' ' -f1 >/etc/quantd/tokens
  chmod 0644 "$dir/token"
}
gone() { # FILE...: none of the files may exist
  local file
  for file; do [ ! -e "$file" ] || fail "$file still exists"; done
}

# The unit as installed.
is UnitFileState disabled
is ActiveState inactive
[ "$(stat -c %U:%G:%a /etc/quantd)" = root:quantd:750 ] ||
  fail "/etc/quantd: $(stat -c %U:%G:%a /etc/quantd)"
shown "$(. /etc/os-release && echo "$PRETTY_NAME"), systemd" \
  "$(systemctl --version | sed -n '1s/.*(\(.*\))/\1/p'): installed," \
  "neither enabled nor started"

# A token file with the permissions that the README requires.
install -m 0640 -g quantd /dev/null /etc/quantd/tokens
token first-of-two
settings
systemctl enable --quiet --now "$unit" 2>/dev/null
served
is UnitFileState enabled
journalctl --no-pager -u "$unit" | grep -q ' info serving ' ||
  fail "the journal has no log line of the server"
shown "enabled and started: serves with the tokens of /etc/quantd, and logs to" \
  "the journal"

# What the process is, and what it may do.
proc=/proc/$pid
status() { awk -v key="$1:" '$1 == key {$1 = ""; print substr($0, 2)}' \
  "$proc/status"; }
same() { [ "$(status "$1")" = "$2" ] || fail "$1 is $(status "$1"), not $2"; }
user=$(id -u quantd) group=$(id -g quantd)
same Uid "$user $user $user $user"
same Gid "$group $group $group $group"
same Groups "$group"
for set in CapInh CapPrm CapEff CapBnd CapAmb; do same $set 0000000000000000; done
same NoNewPrivs 1
same Seccomp 2
# Without CAP_SYS_RESOURCE, no process can exceed systemd's own limit.
files() { awk '/^Max open files/ {print $5}' "/proc/$1/limits"; }
[ "$(files "$pid")" = 65536 ] || [ "$(files "$pid")" = "$(files 1)" ] ||
  fail "a limit of $(files "$pid") descriptors, where systemd has $(files 1)"
shown "the process runs as quantd, without capabilities, new privileges or other" \
  "groups, with a system call filter and $(files "$pid") descriptors"

# Checks the process's mounts as root, since root may write wherever a mount
# allows.
for folder in home root dev tmp; do
  touch "/$folder/of-another"
  gone "$proc/root/$folder/of-another"
done
for folder in usr etc etc/quantd var/lib proc/sys sys/fs/cgroup; do
  awk -v at="/$folder" 'function below(p) {
      return p == "/" || p == at || index(at, p "/") == 1 }
    below($5) && length($5) >= length(best) {best = $5; options = $6}
    END {exit options !~ /^ro(,|$)/}' "$proc/mountinfo" ||
    fail "/$folder is writable"
done
for file in usr/bin/file etc/file etc/quantd/file; do
  ! touch "$proc/root/$file" 2>/dev/null || fail "/$file is writable"
done
touch "$proc/root/run/quantd/file"
rm "$proc/root/run/quantd/file"
shown "the process sees no home and has its own /dev and /tmp; it can write to" \
  "/run/quantd, but not to /usr and /etc"

shared=(--server "$(cat /run/quantd/port)" --token-file "$dir/token"
  --memory-socket /run/quantd/memory --transport shared)
for peer in quantd daemon; do
  call "$peer" "${shared[@]}" ||
    { cat "$dir/call"; fail "$peer cannot share memory"; }
done
for other in games root; do
  ! call "$other" "${shared[@]}" || fail "$other can share memory"
  grep -q 'memory-peers' "$dir/call" || { cat "$dir/call"; fail "the refusal of $other does not name --memory-peers"; }
done
shown "only the users of --memory-peers can share memory"

before=$pid
token second-of-two
! call daemon --server "$(cat /run/quantd/port)" --token-file "$dir/token" ||
  fail "the new tokens were read before the reload"
systemctl reload "$unit"
within 5 call daemon --server "$(cat /run/quantd/port)" \
  --token-file "$dir/token" || fail "the reload did not read the new tokens"
served
[ "$pid" = "$before" ] || fail "the process changed with the reload"
shown "reload: the same process reads the tokens again"

kill -KILL "$pid"
start=${EPOCHREALTIME/./}
another "$before"
is NRestarts 1
shown "killed: a new process serves after" \
  "$(((${EPOCHREALTIME/./} - start) / 1000)) ms"

# The only device fails for good after the start. The next process finds better
# settings.
settings QUANTD_DEVICE=fault:cpu:0:sticky@2 QUANTD_MAX_NO_DEVICE_S=1
systemctl restart "$unit"
settings
before=$(said MainPID)
another "$before"
is NRestarts 1
journalctl --no-pager -u "$unit" | grep -q 'status=4' || fail "the exit code is not 4"
shown "exit code 4 (no device): started again"

settings QUANTD_MAX_WAIT_MS=soon
systemctl restart "$unit"
within 5 systemctl --quiet is-failed "$unit" || fail "the unit has not failed"
# Longer than RestartSec=.
sleep 2.5
is ActiveState failed
is ExecMainStatus 2
is NRestarts 0
shown "exit code 2 (a setting that cannot work): failed, and not started again"

settings
systemctl reset-failed "$unit"
is ActiveState inactive
systemctl start "$unit"
served
start=$SECONDS
systemctl stop "$unit"
is ActiveState inactive
is Result success
is ExecMainStatus 0
((SECONDS - start < 40)) || fail "the stop took $((SECONDS - start)) s"
gone /run/quantd
shown "corrected, reset and started; a stop succeeds in" \
  "$((SECONDS - start)) s"

package() { dpkg "$@" >"$dir/dpkg.log" 2>&1 ||
  { cat "$dir/dpkg.log"; fail "dpkg $1"; }; }
package -i "$dir"/quantd_*.deb
is ActiveState inactive
systemctl start "$unit"
served
before=$pid
package -i "$dir"/quantd_*.deb
another "$before"
is UnitFileState enabled
shown "upgraded: a stopped server stays stopped, a running one is restarted"

package --purge quantd
command -v pgrep >/dev/null && [ -z "$(pgrep -u quantd || true)" ] || fail "processes of quantd still run"
is LoadState not-found
gone /usr/bin/quantd /usr/lib/systemd/system/$unit /run/quantd \
  /etc/systemd/system/multi-user.target.wants/$unit
[ -s "$env" ] || fail "the administrator's settings are gone"
package -i "$dir"/quantd_*.deb
is UnitFileState disabled
is ActiveState inactive
settings QUANTD_MAX_WAIT_MS=soon
systemctl start "$unit"
within 5 systemctl --quiet is-failed "$unit" || fail "the unit has not failed"
rm "$env" /etc/quantd/tokens
package --purge quantd
is LoadState not-found
is ActiveState inactive
gone /etc/quantd
[ -z "$(dpkg-query -W -f '${db:Status-Status}' quantd 2>/dev/null)" ] ||
  fail "dpkg still lists the package"
shown "purged while serving and after a failed start: stopped, disabled and" \
  "removed; the administrator's files stay"
