#!/usr/bin/env python3
"""Checks that the modules of the Python package import each other without
circles, at the top of the file.

    tests/checks/python_imports.py [ROOT]

Fails if modules of client/python/quantd import each other in a circle. Fails if
one imports another inside a function or only for type checkers, which would hide
a circle. Fails if tensors/, whose values do not depend on connections, imports
calls/ or engines/. The package's __init__ may import modules on first use.
"""

import ast
import graphlib
import pathlib
import sys

PACKAGE = "quantd"


def modules(root):
  """Returns the files of the package by module name."""
  found = {}
  for file in sorted((root / "client/python" / PACKAGE).rglob("*.py")):
    if file.name == "quantd_pb2.py":
      continue
    parts = file.relative_to(root / "client/python").with_suffix("").parts
    found[".".join(p for p in parts if p != "__init__")] = file
  return found


def imported(node, known):
  """Returns the modules of the package that a statement imports."""
  names = []
  if isinstance(node, ast.Import):
    names = [alias.name for alias in node.names]
  elif isinstance(node, ast.ImportFrom) and node.module:
    # `from quantd import errors` also imports a module.
    deeper = [f"{node.module}.{alias.name}" for alias in node.names]
    names = [d if d in known else node.module for d in deeper]
  return [n for n in names if n in known and n != PACKAGE]


def main(root):
  known = modules(root)
  wrong, graph = [], {}
  for name, file in known.items():
    if name == PACKAGE:
      continue
    tree = ast.parse(file.read_text("utf-8"))
    graph[name] = set()
    for node in ast.walk(tree):
      for other in imported(node, known):
        place = f"{file.relative_to(root)}:{node.lineno}"
        graph[name].add(other)
        if node not in tree.body:
          wrong.append(f"{place}: {other} is not imported at the top")
        if name.startswith(f"{PACKAGE}.tensors") and other.startswith(
            (f"{PACKAGE}.calls", f"{PACKAGE}.engines")):
          wrong.append(f"{place}: tensors/ imports {other}")
  try:
    graphlib.TopologicalSorter(graph).prepare()
  except graphlib.CycleError as error:
    wrong.append("a circle: " + " <- ".join(error.args[1]))
  print(*wrong, sep="\n", end="\n" if wrong else "")
  return int(bool(wrong))


if __name__ == "__main__":
  here = pathlib.Path(__file__).resolve().parents[2]
  sys.exit(main(pathlib.Path(sys.argv[1]).resolve() if sys.argv[1:] else here))
