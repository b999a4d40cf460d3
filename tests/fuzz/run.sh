#!/usr/bin/env bash
# Searches for inputs that break a parser: libFuzzer with the address and
# undefined behaviour sanitizers, for every parser of bytes from outside.
#
#   tests/fuzz/run.sh [OPTION...] SECONDS [TARGET...]
#
#   SECONDS        for each target; targets run in parallel, each on one core
#   --cores N      run N targets at once (default: one for each core)
#   --executions N starts over with the first target, from the inputs found so
#                  far, until all targets together have run N inputs
#   --built DIR    use the programs and corpora in DIR, which is a copy of
#                  build/fuzz/tests/fuzz of another machine, with the libraries
#                  in DIR/lib
#   --result FILE  write what was done as JSON, with the line coverage of the
#                  parsers by all inputs; this needs a second build
#   --keep         replace the corpus in the tree by the fewest inputs that
#                  reach what all of them reach
#
# Exit codes: 0 nothing was found; 1 a finding, whose input is printed; 77 clang
# is missing. New inputs stay in build/fuzz/found, and the next run begins with
# them. An hour with every target on two cores: tests/fuzz/run.sh 720. Ten
# million executions in one go: tests/fuzz/run.sh --executions 10000000 60.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/fuzz out=build/fuzz/found programs=build/fuzz/tests/fuzz

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; }
result='' keep='' built='' seconds='' targets=() jobs=$(nproc) executions=0
while (($#)); do
  case $1 in
    --result) result=${2:?--result needs a file}; shift ;;
    --keep) keep=1 ;;
    --cores) jobs=${2:?--cores needs a number}; shift ;;
    --executions) executions=${2:?--executions needs a number}; shift ;;
    --built) built=${2:?--built needs a folder}; shift ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "run.sh: unknown option $1 (try --help)" >&2; exit 2 ;;
    *) if [ -z "$seconds" ]; then seconds=$1; else targets+=("$1"); fi ;;
  esac
  shift
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] ||
  { echo "run.sh: expected seconds (try --help)" >&2; exit 2; }
[[ $jobs =~ ^[1-9][0-9]*$ && $executions =~ ^[0-9]+$ ]] ||
  { echo "run.sh: expected a number (try --help)" >&2; exit 2; }
mapfile -t known < <(cd $here/targets &&
  grep -l '^extern "C" int LLVMFuzzerTestOneInput' ./*.cc |
  sed 's|^\./||;s|\.cc$||')
((${#targets[@]})) || targets=("${known[@]}")
for target in "${targets[@]}"; do
  [[ " ${known[*]} " == *" $target "* ]] ||
    { echo "run.sh: no target '$target': ${known[*]}" >&2; exit 2; }
done

if [ -n "$built" ]; then
  programs=$built
  export LD_LIBRARY_PATH=$built/lib
else
  runtime=$(clang++ -print-file-name=libclang_rt.fuzzer-x86_64.a 2>/dev/null ||
    true)
  if [ ! -e "$runtime" ]; then
    echo "SKIPPED: no clang++ with libFuzzer here: nothing was FUZZED" \
      "(deploy/install-deps.sh --checks installs it)"
    exit 77
  fi
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  cmake --preset fuzz >/dev/null
  cmake --build --preset fuzz -j "$jobs" --target "${targets[@]/#/fuzz_}"
fi
building=$SECONDS
mkdir -p "$out"

# fuzz TARGET: runs it for the given time. The output of libFuzzer goes to a
# file beside the inputs.
fuzz() {
  local target=$1 corpus=$programs/corpus/$1
  mkdir -p "$out/$target" "$corpus"
  $here/words.py "$target" >"$out/$target.dict"
  # Hides what a server would print for its operator, for every input.
  local quiet=0
  [ "$target" != configuration ] || quiet=3
  "$programs/fuzz_$target" -max_total_time="$seconds" \
    -dict="$out/$target.dict" -max_len=4096 -len_control=20 \
    -timeout=20 -rss_limit_mb=2048 -close_fd_mask=$quiet -print_final_stats=1 \
    -artifact_prefix="$out/finding-$target-" "$out/$target" "$corpus" \
    >"$out/$target.log" 2>&1 </dev/null || echo $? >"$out/$target.failed"
}
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1
rm -f "$out"/*.failed "$out"/*.log "$out"/*.executions
stat() { sed -n "s/^stat::$2: *//p" "$out/$1.log" | tail -1; }

# Runs every target once, and adds up the executions of all rounds.
go_round() {
  local target running=0 before runs
  for target in "${targets[@]}"; do
    if ((running == jobs)); then wait -n; running=$((running - 1)); fi
    fuzz "$target" &
    running=$((running + 1))
  done
  wait
  for target in "${targets[@]}"; do
    before=$(cat "$out/$target.executions" 2>/dev/null || echo 0)
    runs=$(stat "$target" number_of_executed_units)
    echo $((before + ${runs:-0})) >"$out/$target.executions"
    total=$((total + ${runs:-0}))
    [ ! -e "$out/$target.failed" ] || failed=1
  done
}
start=$SECONDS
total=0 failed=0
go_round
while ((total > 0 && total < executions && !failed)); do go_round; done
took=$((SECONDS - start))

printf '%-14s %14s %8s\n' target executions inputs
for target in "${targets[@]}"; do
  printf '%-14s %14s %8s\n' "$target" "$(cat "$out/$target.executions")" \
    "$(find "$out/$target" -type f | wc -l)"
  if [ -e "$out/$target.failed" ]; then
    echo "FOUND by $target; from the end of $out/$target.log:"
    grep -aE 'ERROR|FINDING|SUMMARY|Test unit written|runtime error' \
      "$out/$target.log" | tail -5
    echo "to reproduce: $programs/fuzz_$target $out/finding-$target-..."
  fi
done
echo "$total executions on $jobs cores in $took s, after a build of $building s"

((failed)) && exit 1
[ -z "$keep" ] || $here/corpus.py "$out" "${targets[@]}"
[ -z "$result" ] || $here/coverage.py --seconds "$took" --cores "$jobs" \
  --found "$out" --result "$result" "${targets[@]}"
