#!/usr/bin/env python3
"""Checks that links and anchors on Markdown pages have a target, and that files
of this tree exist if a text names their path.

  links.py ROOT < LIST    LIST has the files to check, relative to ROOT
"""

import pathlib
import re
import sys

LINK = re.compile(r"\[[^][]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")
ROOMS = "include|kernels|proto|server|client|deploy|tests"
# A name with an extension that is not part of a longer path or of a pattern.
PATH = re.compile(rf"(?<![\w./<>{{}}$*-])((?:{ROOMS})/[\w./-]*\w\."
                  r"(?:h|cc|cu|cuh|proto|py|sh|cmake|txt|md|json|ya?ml))"
                  r"(?![\w*/-])")


def slug(heading):
  """Returns the anchor that GitHub gives a heading."""
  text = re.sub(r"\[([^][]*)\]\([^()]*\)", r"\1", heading)
  text = re.sub(r"[^\w\- ]", "", text.replace("`", "").lower())
  return text.replace(" ", "-")


def outside_fences(text):
  """Yields (number, line) for lines outside fenced blocks."""
  fence = False
  for number, line in enumerate(text.splitlines(), 1):
    if line.lstrip().startswith("```"):
      fence = not fence
    elif not fence:
      yield number, line


def anchors(page):
  found, seen = set(), {}
  for _, line in outside_fences(page.read_text()):
    if heading := HEADING.match(line):
      name = slug(heading[1])
      again = seen.get(name, -1) + 1
      seen[name] = again
      found.add(f"{name}-{again}" if again else name)
  return found


def main():
  root = pathlib.Path(sys.argv[1]).resolve()
  wrong = 0

  def tell(file, number, what):
    nonlocal wrong
    wrong += 1
    print(f"{file}:{number}: {what}")

  for name in sys.stdin.read().split("\n"):
    file = root / name
    # Results of benchmarks name files of an older commit.
    record = name.startswith("tests/bench/results/") and file.suffix == ".json"
    if not name or record or not file.is_file():
      continue
    try:
      text = file.read_text()
    except UnicodeDecodeError:
      continue
    for number, line in enumerate(text.splitlines(), 1):
      for path in PATH.findall(line):
        if not (root / path).exists():
          tell(name, number, f"{path} does not exist")
    if file.suffix != ".md":
      continue
    for number, line in outside_fences(text):
      for target in LINK.findall(line):
        if re.match(r"[a-z]+:", target):
          continue
        path, _, anchor = target.partition("#")
        page = (file.parent / path).resolve() if path else file
        if not page.exists() or root not in (page, *page.parents):
          tell(name, number, f"no {path}")
        elif anchor and (page.suffix != ".md" or anchor not in anchors(page)):
          tell(name, number, f"no heading #{anchor} in {page.name}")
  return wrong != 0


if __name__ == "__main__":
  sys.exit(main())
