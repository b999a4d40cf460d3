#!/usr/bin/env bash
# Under the systemd of a copy that packages_boot.sh booted, where the packages in
# DIR are installed: the unit, from its first start to the removal. A line for
# each thing that was shown; the first that is not ends it.
#
#   packages_unit.sh DIR
set -Eeuo pipefail
dir=$1
unit=quantd.service
env=/etc/quantd/quantd.env
shown() { echo "unit: $*"; }
fail() {
  echo "unit: NOT SO: $*"
  systemctl status --no-pager --lines=0 "$unit" || true
  journalctl --no-pager --boot --lines=20 | cut -c1-300
  exit 1
}
trap '((BASH_SUBSHELL)) || fail "line $LINENO: $BASH_COMMAND"' ERR

said() { systemctl show -P "$1" "$unit"; }
is() { [ "$(said "$1")" = "$2" ] || fail "$1 is $(said "$1"), not $2"; }
# within SECONDS COMMAND...
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
# The file of the port is there once it serves, and goes with its process.
up() { [ "$(said ActiveState)" = active ] && [ -s /run/quantd/port ]; }
served() {
  within 10 up || fail "it does not serve"
  pid=$(said MainPID)
  call daemon --server "$(cat /run/quantd/port)" \
    --token-file "$dir/token" || { cat "$dir/call"; fail "no call is served"; }
}
# another PID: another process than that one serves.
another() {
  renewed() { [ "$(said MainPID)" != "$1" ] && up; }
  within 10 renewed "$1" || fail "no other process than $1 serves"
  served
}
# settings LINE...: those of every part of this, and these.
settings() {
  printf '%s\n' QUANTD_PORT_FILE=/run/quantd/port \
    QUANTD_MEMORY_SOCKET=/run/quantd/memory \
    QUANTD_MEMORY_PEERS=quantd,daemon \
    QUANTD_TOKEN_FILE=/etc/quantd/tokens \
    QUANTD_RELOAD_INTERVAL_MS=3600000 "$@" >"$env"
}
# token WORD: what callers show, and what the server is to read.
token() {
  printf %s "$1" >"$dir/token"
  sha256sum <"$dir/token" | cut -d' ' -f1 >/etc/quantd/tokens
  chmod 0644 "$dir/token"
}
gone() { # FILE...
  local file
  for file; do [ ! -e "$file" ] || fail "$file stayed"; done
}

# The unit as installed.
is UnitFileState disabled
is ActiveState inactive
[ "$(stat -c %U:%G:%a /etc/quantd)" = root:quantd:750 ] ||
  fail "/etc/quantd: $(stat -c %U:%G:%a /etc/quantd)"
shown "$(. /etc/os-release && echo "$PRETTY_NAME"), systemd" \
  "$(systemctl --version | sed -n '1s/.*(\(.*\))/\1/p'): installed," \
  "neither enabled nor started"

# A file as the README wants those of tokens and certificates.
install -m 0640 -g quantd /dev/null /etc/quantd/tokens
token first-of-two
settings
systemctl enable --quiet --now "$unit" 2>/dev/null
served
is UnitFileState enabled
journalctl --no-pager -u "$unit" | grep -q ' info serving ' ||
  fail "nothing in the journal"
shown "enabled and started, serves with the tokens of /etc/quantd, its log is" \
  "in the journal"

# What its process is and can.
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
# A machine without CAP_SYS_RESOURCE lets nobody have more than its systemd has.
files() { awk '/^Max open files/ {print $5}' "/proc/$1/limits"; }
[ "$(files "$pid")" = 65536 ] || [ "$(files "$pid")" = "$(files 1)" ] ||
  fail "$(files "$pid") descriptors, and systemd has $(files 1)"
shown "the process is quantd's, without a capability, new privileges or groups;" \
  "with a filter of system calls and $(files "$pid") descriptors"

# Judged by what root finds in its place, since root may write wherever a mount
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
    fail "/$folder may be written"
done
for file in usr/bin/file etc/file etc/quantd/file; do
  ! touch "$proc/root/$file" 2>/dev/null || fail "wrote /$file"
done
touch "$proc/root/run/quantd/file"
rm "$proc/root/run/quantd/file"
shown "it sees no home, a /dev and a /tmp of its own, writes /run/quantd and" \
  "neither /usr nor /etc"

shared=(--server "$(cat /run/quantd/port)" --token-file "$dir/token"
  --memory-socket /run/quantd/memory --transport shared)
for peer in quantd daemon; do
  call "$peer" "${shared[@]}" ||
    { cat "$dir/call"; fail "$peer shares no memory"; }
done
for other in games root; do
  ! call "$other" "${shared[@]}" || fail "$other shares memory"
  grep -q 'memory-peers' "$dir/call" || { cat "$dir/call"; fail "$other"; }
done
shown "memory is shared with the users of --memory-peers, and no others"

before=$pid
token second-of-two
! call daemon --server "$(cat /run/quantd/port)" --token-file "$dir/token" ||
  fail "tokens were read before the reload"
systemctl reload "$unit"
within 5 call daemon --server "$(cat /run/quantd/port)" \
  --token-file "$dir/token" || fail "the reload read no tokens"
served
[ "$pid" = "$before" ] || fail "another process after the reload"
shown "reload: tokens are read again, by the same process"

kill -KILL "$pid"
start=${EPOCHREALTIME/./}
another "$before"
is NRestarts 1
shown "killed: another process serves after" \
  "$(((${EPOCHREALTIME/./} - start) / 1000)) ms"

# Its only device fails after the start, for good. The next process finds better
# settings.
settings QUANTD_DEVICE=fault:cpu:0:sticky@2 QUANTD_MAX_NO_DEVICE_S=1
systemctl restart "$unit"
settings
before=$(said MainPID)
another "$before"
is NRestarts 1
journalctl --no-pager -u "$unit" | grep -q 'status=4' || fail "no exit code 4"
shown "exit code 4, no device: started anew"

settings QUANTD_MAX_WAIT_MS=soon
systemctl restart "$unit"
within 5 systemctl --quiet is-failed "$unit" || fail "it has not failed"
# Longer than RestartSec=.
sleep 2.5
is ActiveState failed
is ExecMainStatus 2
is NRestarts 0
shown "exit code 2, a setting that cannot work: failed, and not started again"

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
shown "mended, reset and started; stopped with success in" \
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
shown "upgraded: stays stopped if it was, else another process serves"

package --purge quantd
command -v pgrep >/dev/null && [ -z "$(pgrep -u quantd || true)" ] || fail "processes of quantd stayed"
is LoadState not-found
gone /usr/bin/quantd /usr/lib/systemd/system/$unit /run/quantd \
  /etc/systemd/system/multi-user.target.wants/$unit
[ -s "$env" ] || fail "the administrator's settings are gone"
package -i "$dir"/quantd_*.deb
is UnitFileState disabled
is ActiveState inactive
settings QUANTD_MAX_WAIT_MS=soon
systemctl start "$unit"
within 5 systemctl --quiet is-failed "$unit" || fail "it has not failed"
rm "$env" /etc/quantd/tokens
package --purge quantd
is LoadState not-found
is ActiveState inactive
gone /etc/quantd
[ -z "$(dpkg-query -W -f '${db:Status-Status}' quantd 2>/dev/null)" ] ||
  fail "dpkg still knows it"
shown "purged while it served: stopped, disabled and gone, but for the user and" \
  "what the administrator wrote"
