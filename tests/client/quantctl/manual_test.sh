#!/bin/bash
# The manual page and the shell completions name every command and every flag of
# --help, and groff and zsh accept them.
#
#   manual_test.sh <quantctl> <build dir> <cmake>
set -euo pipefail
quantctl=$1 build=$2 cmake=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }

"$cmake" --install "$build" --component manual --prefix "$work/prefix" \
  >/dev/null
mv "$work/prefix/share/man/man1/quantctl.1" "$work/man"
mv "$work/prefix/share/bash-completion/completions/quantctl" "$work/bash"
mv "$work/prefix/share/zsh/site-functions/_quantctl" "$work/zsh"

# shellcheck source=/dev/null
source "$work/bash"
# complete_line WORD...: prints the completions of the last word.
complete_line() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _quantctl
  printf '%s\n' "${COMPREPLY[@]}"
}

# offers WORD: reads all input, so that the writer does not write into a closed
# pipe.
offers() { grep -x -e "$1" >/dev/null; }

# In a manual page, dashes are written \-.
sed 's/\\-/-/g' "$work/man" >"$work/page"
commands=$("$quantctl" help | sed '/^Where the work/,$d' |
  sed -n 's/^  \([a-z]\+\) .*/\1/p')
(($(wc -w <<<"$commands") >= 14)) || fail "few commands: $commands"
count=0
for command in $commands; do
  grep -q "^\.SS $command\$" "$work/page" || fail "the page lacks $command"
  complete_line quantctl "${command:0:3}" | offers "$command" ||
    fail "bash does not complete $command"
  grep -q "^    $command)" "$work/zsh" || fail "zsh lacks $command"
  sed -n "/^\.SS $command\$/,/^\.S[SH] /p" "$work/page" >"$work/section"
  sed -n "/^    $command)/,/;;/p" "$work/zsh" >"$work/arm"
  flags=$("$quantctl" help "$command" | sed '/^Examples:/,$d' |
    grep -oE '^ +(-[a-z], )?--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+')
  for flag in $flags; do
    count=$((count + 1))
    grep -qE "(^|, )\\\\fB$flag|, \\\\fB$flag" "$work/section" ||
      fail "the page lacks $command $flag"
    complete_line quantctl "$command" "${flag:0:4}" | offers "$flag" ||
      fail "bash does not complete $command $flag"
    grep -qE "'\*?$flag\[" "$work/arm" || fail "zsh lacks $command $flag"
  done
done
# Defaults are formatted separately from the description.
grep -A1 -F -e '--deadline\fR \fINUMBER\fR' "$work/page" |
  grep -q '(default 30)$' || fail "the page lacks a default"
grep -q '\[\$QUANTD_SERVER\]$' "$work/page" ||
  fail "the page lacks a variable"
# Flags that --help hides are not in the manual and the completions.
if grep -l -- '--for-parent' "$work/page" "$work/bash" "$work/zsh"; then
  fail "a hidden flag is named"
fi
((count >= 100)) || fail "only $count flags were seen"

# Completion of values and files.
complete_line quantctl convert --dialect com | offers compressed-tensors ||
  fail "bash does not complete dialects"
complete_line quantctl convert --format nv | offers nvfp4_4over6 ||
  fail "bash does not complete formats"
(cd "$work" && touch weights.safetensors &&
  complete_line quantctl inspect weig | offers weights.safetensors) ||
  fail "bash does not complete files"
grep -q '_files' "$work/zsh"

if command -v groff >/dev/null; then
  groff -man -ww -z "$work/man" 2>"$work/log"
  [ -s "$work/log" ] && { cat "$work/log"; fail "groff complains"; }
else
  echo "SKIPPED: no groff to check the page" >&2
fi
if command -v zsh >/dev/null; then
  zsh -n "$work/zsh" || fail "zsh complains"
else
  echo "SKIPPED: no zsh to check the completions" >&2
fi
echo "$count flags of $(wc -w <<<"$commands") commands"
