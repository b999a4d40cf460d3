#!/usr/bin/env bash
# Quick checks of the tree, which take seconds and need no build.
#
#   tests/checks.sh [--all] [--fix] [NAME...]
#
#   format       sources are formatted as clang-format 14 does
#   layering     folders only include what tests/layering.py allows
#   imports      modules of the Python package import downward, at their top
#   messages     the Python package's messages are generated from quantd.proto, by
#                the protoc of the oldest supported protobuf
#   shell        shellcheck finds nothing in scripts
#   spelling     codespell finds nothing
#   tables       figures on pages are those of the results beside them, and
#                quantctl recommends engines according to them
#   constants    server/CONSTANTS.md names the numbers in server/
#   links        links, anchors and paths in texts have a target
#   text         no trailing spaces, no tabs, a newline at the end
#   length       sources have at most 400 lines
#   english      comments and pages have no phrase or sentence that is hard to read
#   strangers    no path of a developer's machine
#   version      CHANGELOG.md begins with the version of this tree
#
#   --all   a missing tool, or one of another version, fails its check; without
#           --all, the check is skipped with a message
#   --fix   updates formats, tables and messages instead of failing
#
# deploy/install-deps.sh --checks installs the tools. A new check also needs a line
# in tests/checks/selftest.sh, which shows that every check can fail.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

all='' fix='' names=()
for word in "$@"; do
  case $word in
    --all) all=1 ;;
    --fix) fix=1 ;;
    --help | -h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    -*) echo "checks.sh: unknown option $word (try --help)" >&2; exit 2 ;;
    *) names+=("$word") ;;
  esac
done
known=(format layering imports messages shell english spelling tables constants links text
  length strangers version)
((${#names[@]})) || names=("${known[@]}")
for name in "${names[@]}"; do
  [[ " ${known[*]} " == *" $name "* ]] ||
    { echo "checks.sh: no check '$name' (try --help)" >&2; exit 2; }
done

# Existing files that are tracked, or not ignored.
mapfile -t files < <(git ls-files -co --exclude-standard | while read -r file; do
  [ -f "$file" ] && printf '%s\n' "$file"
done | sort -u)
((${#files[@]})) || { echo "checks.sh: no files here" >&2; exit 2; }
# listed REGEX: prints the files whose paths match.
listed() { printf '%s\n' "${files[@]}" | grep -E "$1"; }
# prose: prints the files that people wrote.
prose() { listed '' | grep -vE '^LICENSE$|\.(json|pem|png|safetensors|zip)$'; }

missing() { echo "$1 is missing"; return 77; }

format() {
  local tool=clang-format-14 mode='--dry-run -Werror'
  command -v $tool >/dev/null || tool=clang-format
  command -v $tool >/dev/null || { missing "clang-format 14"; return; }
  [[ $($tool --version) =~ version\ 14\. ]] ||
    { missing "clang-format 14 (there is $($tool --version))"; return; }
  [ -z "$fix" ] || mode=-i
  # shellcheck disable=SC2086  # each word is a flag
  listed '\.(h|cc|cu|cuh)$' | xargs -P "$(nproc)" -n 40 $tool $mode
}
layering() {
  tests/layering.py
}
constants() {
  tests/checks/constants.py
}
imports() {
  tests/checks/python_imports.py
}
messages() {
  local out kept=client/python/quantd/quantd_pb2.py
  [[ $(protoc --version 2>&1) =~ ^libprotoc\ 3\.21\. ]] ||
    { missing "protoc 3.21"; return; }
  out=$(mktemp -d)
  protoc --proto_path=proto --python_out="$out" quantd.proto
  # Removes positions in the descriptor, which only copies of descriptors need.
  sed -i '/^if _descriptor._USE_C_DESCRIPTORS/,/^# @@/{/^# @@/!d}' "$out"/*
  [ -z "$fix" ] || cp "$out"/* $kept
  cmp "$out"/quantd_pb2.py $kept
  local wrong=$?
  rm -rf "$out"
  return $wrong
}
shell() {
  command -v shellcheck >/dev/null || { missing shellcheck; return; }
  listed '\.sh$|^\.ci/run$' | xargs shellcheck -x --severity=warning
}
spelling() {
  command -v codespell >/dev/null || { missing codespell; return; }
  # te is an HTTP/2 header, kInf infinity, and versiom a key that a test misspells.
  prose | xargs codespell --ignore-words-list te,kinf,versiom
}
english() { tests/checks/english.py; }
tables() {
  if [ -n "$fix" ]; then tests/bench/results/tables.py; return; fi
  tests/bench/results/tables.py --check
}
links() { listed '' | tests/checks/links.py .; }
text() {
  local wrong=0 unended
  prose | xargs grep -nI ' $' && wrong=1
  prose | xargs grep -nIP '\t' && wrong=1
  # shellcheck disable=SC2016  # what perl expands
  unended=$(prose | xargs perl -0777 -ne \
    'print "$ARGV: no newline at the end\n" if length && !/\n\z/')
  [ -z "$unended" ] || { echo "$unended"; wrong=1; }
  return $wrong
}
length() {
  # The specification is a single file.
  ! listed '\.(h|cc|cu|cuh|proto|py|sh|cmake)$' | grep -v '^proto/quantd.proto$' |
    xargs wc -l | awk '$1 > 400 && $2 != "total" {print $2 ": " $1 " lines"}' |
    grep .
}
strangers() {
  ! prose | grep -v '^tests/checks' | xargs grep -nIE \
    '(^|[^[:alnum:]_./-])/(home|Users|root|work|mnt)/|\.\./shared/|file://'
}
version() {
  local want
  want=$(deploy/version.sh)
  [ -n "$want" ] && [ "$(grep -m1 '^## ' CHANGELOG.md | cut -d' ' -f2)" = "$want" ] ||
    { echo "CHANGELOG.md does not begin with version $want"; return 1; }
}

failed=0
for name in "${names[@]}"; do
  start=$(date +%s%N)
  said=$("$name" 2>&1)
  code=$?
  case $code in
    0) outcome=ok ;;
    77) outcome=SKIPPED; [ -z "$all" ] || failed=1 ;;
    *) outcome=FAILED; failed=1 ;;
  esac
  took=$((($(date +%s%N) - start) / 100000000))
  printf '%-10s %-8s %2d.%d s\n' "$name" $outcome $((took / 10)) $((took % 10))
  [ $outcome = ok ] || sed 's/^/    /' <<<"$said" | head -60
done
exit $failed
