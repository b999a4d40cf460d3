#!/usr/bin/env python3
"""Writes quantctl.1, the manual page, and completions for bash (quantctl) and
zsh (_quantctl), made of what --help says: manual.py QUANTCTL FOLDER"""

import collections
import pathlib
import re
import subprocess
import sys

COLUMN = 30  # where the help puts descriptions
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
# `names`: "-o", "--out", and without dashes what is no flag. `value`: "FILE", or
# empty. `rest`: what else stands before the description.
Entry = collections.namedtuple("Entry", "names value about rest is_flag")


def words_of(entry):
  """What it takes, where its description ends with that: "..: a, b or c"."""
  words = re.split(", | or ", entry.about.rpartition(": ")[2])
  legal = all(re.fullmatch(r"[\w.@+:-]+", word) for word in words)
  return words if entry.value and legal and len(words) > 1 else []


def read(text):
  """The description of a help page, its entries, and what follows them."""
  head, _, foot = text.partition("\nExit codes:\n")
  entries, lines = [], head.splitlines()
  for line, after in zip(lines, lines[1:] + [""]):
    if not re.match(r"  \S", line):
      continue
    alone = after.startswith(" " * COLUMN)
    left, about = (line, after) if alone else (line[:COLUMN], line[COLUMN:])
    names, _, rest = left.strip().partition(" ")
    # Before an equal sign and a default; one that is a part of it has a name behind it.
    value = re.match(r"(?!REQUIRED|Needs:|Excludes:)([^\s:=(\[]|=(?=[A-Z]))+", rest)
    entries.append(Entry(names.split(","), value[0] if value else "", about.strip(), rest,
                         names.startswith("-")))
  return lines[0], entries, foot


def roff(text):
  text = text.replace("\\", "\\e").replace("-", "\\-")
  return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def page(version, about, flags, commands, foot):
  def put(entry):
    names = ", ".join(f"\\fB{roff(name)}\\fR" for name in entry.names if entry.is_flag)
    value = f" \\fI{roff(entry.value)}\\fR" if entry.value else ""
    text = f"{entry.about}."
    for what, where in (("Default", r"(?<!\()=([^A-Z\s]\S*)| \[(\S+)\]"), ("Environment", r"\(Env:(\w+)\)")):
      found = re.search(where, entry.rest)
      text += f" {what}: {found[found.lastindex]}." if found else ""
    return f".TP\n{(names + value).strip()}\n{roff(text)}\n"

  def synopsis(name, entries):
    values = (f" \\fI{roff(e.value)}\\fR" if "REQUIRED" in e.rest else
              f" [\\fI{roff(e.value)}\\fR]" for e in entries if not e.is_flag)
    return f"\\fBquantctl {roff(name)}\\fR{''.join(values)} [\\fIoptions\\fR]\n"

  yield f'.TH QUANTCTL 1 "" "{version}"\n.SH NAME\nquantctl \\- {roff(about)}\n.SH SYNOPSIS\n'
  yield ".br\n".join(synopsis(name, entries) for name, (_, entries) in commands.items())
  yield ".SH OPTIONS\n" + "".join(map(put, flags)) + ".SH COMMANDS\n"
  for name, (about, entries) in commands.items():
    yield f".SS {roff(name)}\n{roff(about)}.\n.PP\n{synopsis(name, entries)}"
    yield from map(put, entries)
  yield f".SH NOTES\n.nf\nExit codes:\n{roff(foot)}.fi\n"


def bash(flags, commands):
  def names(entries):
    return " ".join(name for e in entries if e.is_flag for name in e.names)

  arms = (f"    {c}) flags='{names(entries)}' ;;" for c, (_, entries) in commands.items())
  words = (f"    {'|'.join(f'{c}:{name}' for name in e.names)}) values='{' '.join(words_of(e))}' ;;"
           for c, (_, entries) in commands.items() for e in entries if words_of(e))
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
      star = "*" if re.search(r" \.{3}(?!])", e.rest) else ""
      for name in e.names:
        flag = f"{star}{name}[{quoted(e.about)}]" if e.is_flag else ""
        yield f" \\\n      '{flag}{value}'"

  about = (f"\n    '{name}:{quoted(text)}'" for name, (text, _) in commands.items())
  arms = (f"    {name})\n      _arguments{''.join(put(entries))} ;;"
          for name, (_, entries) in commands.items())
  return (ZSH.replace("@COMMANDS", "".join(about)).replace("@FLAGS", "".join(put(flags)))
          .replace("@ARMS", "\n".join(arms)))


def main():
  def ask(*words):
    return subprocess.check_output([sys.argv[1], *words], encoding="utf-8")
  folder = pathlib.Path(sys.argv[2])
  about, entries, foot = read(ask("--help"))
  flags = [e for e in entries if e.is_flag]
  names = [e.names[0] for e in entries if not e.is_flag]
  commands = {name: read(ask(name, "--help"))[:2] for name in names}
  folder.mkdir(exist_ok=True)
  made = page(ask("--version").strip(), about, flags, commands, foot)
  (folder / "quantctl.1").write_text("".join(made), encoding="utf-8")
  (folder / "quantctl").write_text(bash(flags, commands), encoding="utf-8")
  (folder / "_quantctl").write_text(zsh(flags, commands), encoding="utf-8")

main()
