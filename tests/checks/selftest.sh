#!/usr/bin/env bash
# Every check of tests/checks.sh passes on a good tree and fails on a bad one.
# Checks whose tool is missing are skipped and listed. tests/layering_test.py
# tests the check `layering`.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# good: makes the smallest tree that passes all checks.
good() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree/tests/bench" "$work/tree/tests/fuzz" "$work/tree/deploy" \
    "$work/tree/kernels/plan"
  cd "$work/tree"
  cp -r "$root/tests/checks" "$root/tests/checks.sh" tests/
  cp -r "$root/tests/bench/results" tests/bench/
  cp "$root/tests/fuzz/README.md" tests/fuzz/
  mkdir -p client/quantctl tests/ecosystem
  cp -r "$root/client/quantctl/models" client/quantctl/
  cp -r "$root/tests/ecosystem/published" "$root/tests/ecosystem/engines" \
    "$root/tests/ecosystem/activations" tests/ecosystem/
  cp "$root/deploy/version.sh" deploy/
  mkdir -p proto client/python/quantd
  cp "$root/proto/quantd.proto" proto/
  cp "$root"/client/python/quantd/quantd_pb2.py client/python/quantd/
  cp "$root/.clang-format" .
  echo 'project(quantd VERSION 1.2.3 LANGUAGES CXX)' >CMakeLists.txt
  printf '# Changes\n\n## 1.2.3\n' >CHANGELOG.md
  printf '# A\n\n## Two words\n\n[b](#two-words) [c](CHANGELOG.md)\n' >README.md
  printf '\n<!-- figures: generated -->\n<!-- end of figures -->\n' >>README.md
  tests/bench/results/tables.py
  printf '#include <string>\n' >kernels/plan/format.h
  mkdir server; echo '| `kOld` |' >server/CONSTANTS.md
  echo 'constexpr int kOld = 1;' >server/b.h
  git init -q .
  # Hides the copied tools, whose texts name files that this tree does not have.
  printf 'tests/\nclient/\n' >.git/info/exclude
}
failed=0 skipped=''
# fails CHECK DESCRIPTION: the check must pass on the good tree, and fail after
# the commands on standard input.
fails() {
  local said code=0
  good
  said=$(tests/checks.sh "$1" 2>&1) || code=$?
  if [[ $said == *SKIPPED* ]]; then
    [[ $skipped == *" $1"* ]] || skipped+=" $1"
    return
  fi
  [ $code = 0 ] || { echo "$1 fails on the good tree: $said"; failed=1; }
  . /dev/stdin
  code=0
  said=$(tests/checks.sh "$1" 2>&1) || code=$?
  [ $code = 1 ] || { echo "$1 does not detect $2"; failed=1; }
}
fails format "code that clang-format changes" <<<'echo "int  f( );" >kernels/a.cc'
python=client/python/quantd
fails imports "an import in a function" <<<"mkdir -p $python; touch $python/b.py
  printf 'def f():\n  from quantd import b\n' >$python/a.py"
fails imports "a circle" <<<"mkdir -p $python
  echo 'from quantd import b' >$python/a.py; echo 'import quantd.a' >$python/b.py"
fails imports "a tensor module that imports calls" <<<"mkdir -p $python/{calls,tensors}
  touch $python/calls/a.py; echo 'from quantd.calls import a' >$python/tensors/b.py"
fails messages "a message that was not generated again" <<<'sed -i \
  "s/^message QuantizeRequest/message Old {}\n&/" proto/quantd.proto'
fails shell "an unset variable" <<<'printf "#!/bin/sh\necho \$nowhere\n" >a.sh'
# Split, so that the check does not find it in this file.
fails english "a comment with a bad beginning" <<<'echo \
  "// Of a copy." >kernels/a.h'
fails spelling "a misspelt word" <<<'echo "te""h" >>README.md'
fails tables "a figure without a result" <<<'sed -i "s/ us, / s, /" README.md'
fails tables "an engine without a confirming run" <<<'sed -i "s/\"wrong\"/\"loaded\"/" \
  client/quantctl/models/engines.cc; tests/bench/results/tables.py >/dev/null || true'
fails constants "a number that is not on the page" <<<'echo \
  "constexpr int kNew = 1;" >server/a.h'
fails constants "a number that no longer exists" <<<'rm server/b.*'
fails links "a page that does not exist" <<<'echo "[a](nowhere.md)" >>README.md'
fails links "an anchor that does not exist" <<<'echo "[a](#nowhere)" >>README.md'
fails links "a file that does not exist" <<<'echo "server/""none.h" >>README.md'
fails text "a trailing space" <<<'echo "a " >>README.md'
fails text "a tab" <<<'printf "a\tb\n" >>README.md'
fails text "no newline at the end" <<<'printf a >>README.md'
fails length "a long source" <<<'seq -f "// %g." 401 >kernels/long.h'
fails strangers "a path of a developer's machine" <<<'echo "see /""home/me/notes" >>README.md'
fails version "a version without a change log" <<<'sed -i s/1.2.3/1.2.4/ CMakeLists.txt'
[ -z "$skipped" ] || echo "skipped because of missing tools:$skipped"
exit $failed
