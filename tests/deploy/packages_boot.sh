#!/usr/bin/env bash
# Runs the unit under systemd: installs the packages in DEBS in a copy of this
# machine's root file system. The copy then boots in its own namespaces and only
# starts packages_unit.sh, which does the checks.
#
#   packages_boot.sh DEBS
#
# Exits with 77 if this machine does not allow it. Nothing of the machine is changed:
# the copy has its own processes, network, names, mounts and control group, sees few
# devices, and is ended after 2 minutes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
skip() { echo "SKIPPED: $*: the unit was NOT run under systemd"; exit 77; }

# Runs in the namespaces: makes the copy and becomes its systemd.
if [ "${1:-}" = inside ]; then
  work=$2 debs=$3
  mount --make-rprivate /
  "$here/packages_root.sh" "$work" "$debs"
  cd "$work/root"
  # A file of the caller, which remains after the copy is gone.
  touch run/said
  mount --bind "$work/said" run/said
  ip link set lo up

  # Kernel settings apply to the whole machine, so the copy cannot write them.
  mount -t proc -o nosuid,nodev,noexec proc proc || exit 77
  for path in proc/{sys,sysrq-trigger,irq,bus,fs,acpi,scsi}; do
    [ -e "$path" ] || continue
    mount --bind "$path" "$path"
    mount -o remount,bind,ro "$path"
  done
  mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys || exit 77
  mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 sys/fs/cgroup || exit 77
  # A devtmpfs would be shared: a file created in it appears on the machine.
  mount -t tmpfs -o mode=0755,nosuid tmpfs dev
  for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
  done
  for pair in fd:fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do
    ln -s "/proc/self/${pair#*:}" "dev/${pair%:*}"
  done
  # The copy has its own terminals, which its systemd mounts.
  ln -s pts/ptmx dev/ptmx

  # The copy must start nothing of what the machine starts at boot.
  rm -rf {etc,usr/lib}/systemd/system/*.{wants,requires} \
    usr/lib/systemd/system-generators/* etc/systemd/system/*.d
  : >etc/fstab
  : >etc/machine-id
  units=etc/systemd/system
  mkdir "$units/sysinit.target.wants"
  ln -s /lib/systemd/system/systemd-journald.service \
    "$units/sysinit.target.wants"
  # This unit ends the boot with its exit code.
  cat >"$units/trial.service" <<'UNIT'
[Unit]
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
ExecStart=/bin/bash /tmp/packages_unit.sh /tmp
StandardOutput=append:/run/said
StandardError=append:/run/said
UNIT
  chroot . /bin/bash -c 'dpkg -i /tmp/*.deb' >run/dpkg.log 2>&1 ||
    { cat run/dpkg.log; exit 1; }

  # Hides the machine's root, except for the layers of the copy.
  pivot_root . mnt
  umount -l mnt
  powers=(audit_control audit_read mac_admin mac_override sys_boot sys_module
    sys_rawio sys_time syslog)
  exec setpriv \
    --bounding-set="$(printf -- '-%s,' "${powers[@]}" | sed 's/,$//')" \
    env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=trial.service \
    --log-target=journal </dev/null >/dev/null 2>&1
fi

debs=$(realpath "${1:?DEBS}")
[ "$(id -u)" = 0 ] || skip "not root"
for tool in unshare pivot_root setpriv ip findmnt /lib/systemd/systemd; do
  command -v "$tool" >/dev/null || skip "no $tool"
done
groups=$(findmnt -n -t cgroup2 -o TARGET | head -1) || true
[ -n "$groups" ] || skip "no cgroup2"
unshare --mount --pid --fork --uts --ipc --net --cgroup true 2>/dev/null ||
  skip "no namespaces"

work=$(mktemp -d)
group=$groups/quantd-boot-${work##*/}
made=
ended() {
  # Only this script made the group, so no other process is in it.
  if [ -n "$made" ]; then
    echo 1 >"$group/cgroup.kill" || true
    for _ in {1..100}; do
      ! grep -q 'populated 1' "$group/cgroup.events" || { sleep 0.1; continue; }
      break
    done
    find "$group" -depth -type d -exec rmdir {} \;
  fi
  rm -rf "$work"
}
trap ended EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
mkdir "$group" 2>/dev/null || skip "no control group can be made"
made=1
[ -e "$group/cgroup.kill" ] || skip "this kernel cannot kill a control group"
touch "$work/said"

# If one of these processes ends, the next one is killed, down to systemd.
(
  echo "$BASHPID" >"$group/cgroup.procs"
  exec setpriv --pdeathsig KILL timeout --signal KILL 120 \
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child=KILL --uts --ipc --net --cgroup \
    "$0" inside "$work" "$debs"
) &
status=0
{ wait $! || status=$?; } 2>/dev/null
cat "$work/said"
case $status in
  0) grep -q '^unit: purged' "$work/said" ||
    { echo "FAILED: the copy ended before the last check"; exit 1; } ;;
  77) skip "no overlay, proc, sysfs or cgroup2 in a namespace" ;;
  137) echo "FAILED: the boot did not end in 2 minutes"; exit 1 ;;
  *) echo "FAILED: the unit under systemd (exit code $status)"; exit 1 ;;
esac
