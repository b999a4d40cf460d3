#!/usr/bin/env python3
"""Writes the manual page (quantctl.1) and the completions for bash (quantctl)
and zsh (_quantctl) from the output of --help: manual.py QUANTCTL FOLDER"""

import collections
import os
import pathlib
import re
import subprocess
import sys

COLUMN = 30  # column of descriptions in a wide help page
BASH = r"""_quantctl() {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
  local before=${COMP_WORDS[COMP_CWORD-1]} flags='@FLAGS' values='' how=(-f)
  ((COMP_CWORD > 1)) || values='@COMMANDS'
  case $command in
@ARMS
  esac
  case $command:$before in
@WORDS
  esac
  [[ $word != -* ]] || values=$flags
  [ -z "$values" ] || how=(-W "$values")
  mapfile -t COMPREPLY < <(compgen "${how[@]}" -- "$word")
}
complete -o filenames -F _quantctl quantctl
"""
ZSH = r"""#compdef quantctl
_quantctl() {
  local -a commands
  commands=(@COMMANDS
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    _arguments@FLAGS
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
@ARMS
  esac
}
_quantctl "$@"
"""
# An option, argument or command of a help page. `names`: "-o" and "--output", or
# a name without dashes. `value`: "FILE", or empty. `more`: it may be repeated.
Entry = collections.namedtuple("Entry", "names value about more is_flag")


def words_of(entry):
  """The legal values of an option whose description ends with ": a, b or c"."""
  about = re.sub(r" (\(default \S+\)|\[\$\w+\])", "", entry.about)
  words = re.split(", | or ", about.rpartition(": ")[2])
  legal = all(re.fullmatch(r"[\w.@+:-]+", word) for word in words)
  return words if entry.value and legal and len(words) > 1 else []


def read(text):
  """The description, usage, entries and remaining text of a help page."""
  head, mark, foot = re.split("(\nWhere the work is done:|\nExamples:)\n", text)
  entries, lines = [], head.splitlines()
  for line, after in zip(lines, lines[1:] + [""]):
    if not re.match(r"  \S", line):
      continue
    alone = after.startswith(" " * COLUMN)
    left, about = (line, after) if alone else (line[:COLUMN], line[COLUMN:])
    names, more, _ = left.partition(" ...")
    names = names.strip().split(", ")
    names[-1], _, value = names[-1].partition(" ")
    value = value or (names[0] if names[0].isupper() else "")
    entries.append(Entry(names, value, about.strip(), bool(more), names[0].startswith("-")))
  return lines[0], lines[2].removeprefix("Usage: "), entries, mark.strip() + "\n" + foot


def roff(text):
  text = text.replace("\\", "\\e").replace("-", "\\-")
  return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def page(version, about, flags, commands, foot):
  def put(entry):
    names = ", ".join(f"\\fB{roff(name)}\\fR" for name in entry.names if entry.is_flag)
    value = f" \\fI{roff(entry.value)}\\fR" if entry.value else ""
    return f".TP\n{(names + value).strip()}\n{roff(entry.about)}\n"

  yield f'.TH QUANTCTL 1 "" "{version}"\n.SH NAME\nquantctl \\- {roff(about)}\n.SH SYNOPSIS\n'
  yield "\n.br\n".join(roff(usage) for _, usage, _, _ in commands.values())
  yield "\n.SH OPTIONS\n" + "".join(map(put, flags)) + ".SH COMMANDS\n"
  for name, (about, _, entries, examples) in commands.items():
    yield f".SS {roff(name)}\n{roff(about)}\n"
    yield from map(put, entries)
    yield f".PP\n.nf\n{roff(examples)}.fi\n"
  yield f".SH NOTES\n.nf\n{roff(foot)}.fi\n"


def bash(flags, commands):
  def names(entries):
    return " ".join(name for e in entries if e.is_flag for name in e.names)

  arms = (f"    {c}) flags='{names(entries)}' ;;" for c, (_, _, entries, _) in commands.items())
  words = (f"    {'|'.join(f'{c}:{name}' for name in e.names)}) values='{' '.join(words_of(e))}' ;;"
           for c, (_, _, entries, _) in commands.items() for e in entries if words_of(e))
  return (BASH.replace("@FLAGS", names(flags)).replace("@COMMANDS", " ".join(commands))
          .replace("@ARMS", "\n".join(arms)).replace("@WORDS", "\n".join(words)))


def zsh(flags, commands):
  def quoted(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")

  def put(entries):
    for e in entries:
      path = e.value.startswith("FILE") or e.value in ("MODEL", "OTHER", "DIR", "IN", "OUT")
      action = f"({' '.join(words_of(e))})" if words_of(e) else "_files" if path else ""
      value = f":{quoted(e.value)}:{action}" if e.value else ""
      star = "*" if e.more else ""
      for name in e.names:
        flag = f"{star}{name}[{quoted(e.about)}]" if e.is_flag else ""
        yield f" \\\n      '{flag}{value}'"

  about = (f"\n    '{name}:{quoted(text)}'" for name, (text, _, _, _) in commands.items())
  arms = (f"    {name})\n      _arguments{''.join(put(entries))} ;;"
          for name, (_, _, entries, _) in commands.items())
  return (ZSH.replace("@COMMANDS", "".join(about)).replace("@FLAGS", "".join(put(flags)))
          .replace("@ARMS", "\n".join(arms)))


def main():
  def ask(*words):
    wide = dict(os.environ, COLUMNS="100000")
    return subprocess.check_output([sys.argv[1], *words], encoding="utf-8", env=wide)
  folder = pathlib.Path(sys.argv[2])
  about, _, entries, foot = read(ask("--help"))
  flags = [e for e in entries if e.is_flag]
  names = [e.names[0] for e in entries if not e.is_flag]
  commands = {name: read(ask("help", name)) for name in names}
  folder.mkdir(exist_ok=True)
  made = page(ask("--version").strip(), about, flags, commands, foot)
  (folder / "quantctl.1").write_text("".join(made), encoding="utf-8")
  (folder / "quantctl").write_text(bash(flags, commands), encoding="utf-8")
  (folder / "_quantctl").write_text(zsh(flags, commands), encoding="utf-8")

main()
