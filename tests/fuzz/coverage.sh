#!/usr/bin/env bash
# Counts how many lines of each parser the inputs in the tree reach. Prints a
# table, and exits with 1 if they are fewer than --bar.
#
#   tests/fuzz/coverage.sh [OPTION...] [TARGET...]
#
#   --bar PERCENT  of the lines of all parsers together (default 95)
#   --missing      also lists the lines that no input reaches
#   --found        also uses the inputs that the last run of run.sh found
#
# Builds the targets once more, in build/fuzz-coverage, with clang's coverage and
# without sanitizers. Exit codes: 0 enough lines are reached, 1 they are not, 2
# wrong usage, 77 clang or llvm is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; }
bar=95 options=() targets=()
while (($#)); do
  case $1 in
    --bar) bar=${2:?--bar needs a number}; shift ;;
    --missing) options+=(--missing) ;;
    --found) options+=(--found build/fuzz/found) ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "coverage.sh: unknown option $1 (try --help)" >&2; exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done
[[ $bar =~ ^[0-9]+(\.[0-9]+)?$ ]] ||
  { echo "coverage.sh: expected a number after --bar" >&2; exit 2; }
for tool in clang++ llvm-cov llvm-profdata; do
  command -v "$tool" >/dev/null && continue
  echo "SKIPPED: no $tool here: coverage was NOT measured" \
    "(deploy/install-deps.sh --checks installs it)"
  exit 77
done
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
exec tests/fuzz/coverage.py --bar "$bar" "${options[@]}" "${targets[@]}"
