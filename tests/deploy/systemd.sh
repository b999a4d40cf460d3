#!/usr/bin/env bash
# Checks the systemd units: systemd accepts them, and they are confined enough
# (`systemd-analyze security`). Starts nothing: systemd only reads the files,
# below a root folder of their own.
#
#   tests/deploy/systemd.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! systemd-analyze security --help 2>/dev/null | grep -q -- --offline; then
  echo "SKIPPED: no systemd-analyze with --offline: the units were NOT checked"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
units=$work/root/usr/lib/systemd/system
mkdir -p "$units" "$work/root/usr/bin" "$work/root/bin"
cp deploy/systemd/quantd.service deploy/systemd/quantd-edge.service "$units"
# The programs that the units start must exist.
for program in usr/bin/quantd usr/sbin/haproxy bin/kill; do
  mkdir -p "$work/root/${program%/*}"
  install -m 0755 /bin/true "$work/root/$program"
done
# The targets that the units name come with systemd.
for target in basic network multi-user shutdown sysinit; do
  printf '[Unit]\nDescription=%s\n' "$target" >"$units/$target.target"
done

# verified [UNIT]: systemd finds no mistake and knows every setting.
verified() {
  local said
  said=$(systemd-analyze verify --root="$work/root" --man=no \
    "${1:-quantd.service}" 2>&1) || { echo "$said"; return 1; }
  ! grep -E 'quantd.*\.service|(cuda|edge)\.conf|Unknown|Failed' <<<"$said"
}
# exposure [UNIT]: the exposure level, 0 (none) to 10, times ten.
exposure() {
  systemd-analyze security --offline=true --no-pager --root="$work/root" \
    "${1:-quantd.service}" >"$work/said" 2>&1 || true
  sed -n 's/.*Overall exposure level for quantd.*\.service: \([0-9]*\)\.\([0-9]\).*/\1\2/p' \
    "$work/said"
}
# judged WHAT MOST [UNIT]: verifies the unit, and its exposure is at most MOST.
judged() {
  verified "${@:3}"
  local level
  level=$(exposure "${@:3}")
  [ -n "$level" ] || { cat "$work/said"; return 1; }
  echo "$1: exposure $((level / 10)).$((level % 10)), at most" \
    "$(($2 / 10)).$(($2 % 10))"
  ((10#$level <= $2)) || { grep '✗' "$work/said"; return 1; }
}
judged "the unit" 19
mkdir -p "$units/quantd.service.d"
cp deploy/systemd/cuda.conf "$units/quantd.service.d"
judged "the unit with the drop-in for GPUs" 25
cp deploy/systemd/edge.conf "$units/quantd.service.d"
judged "the unit with the drop-ins for GPUs and for the edge" 25
judged "the edge" 19 quantd-edge.service

# Shows that this check can fail: without its sandbox, the unit is more exposed.
rm -r "$units/quantd.service.d"
sed -i '/^\(Protect\|Private\|Restrict\|SystemCall\|Capability\)/d' \
  "$units/quantd.service"
(($(exposure) > 50)) || { echo "a unit without a sandbox passes"; exit 1; }
printf '[Service]\nProtectSytem=strict\n' >>"$units/quantd.service"
! verified >/dev/null || { echo "an unknown setting passes"; exit 1; }
