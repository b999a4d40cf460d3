#!/usr/bin/env python3
"""Holds the Python package to its order: modules import downward, at their top.

    tests/checks/python_imports.py [ROOT]

It fails when modules of client/python/quantd import each other in a circle, when
one imports another inside a function or for type checkers alone, which hides a
circle, and when tensors/, whose values know no connection, imports calls/ or
engines/. The package's own __init__ finds modules when they are asked for.
"""

import ast
import graphlib
import pathlib
import sys

PACKAGE = "quantd"


def modules(root):
  """Files of the package by the names of their modules."""
  found = {}
  for file in sorted((root / "client/python" / PACKAGE).rglob("*.py")):
    if file.name == "quantd_pb2.py":
      continue
    parts = file.relative_to(root / "client/python").with_suffix("").parts
    found[".".join(p for p in parts if p != "__init__")] = file
  return found


def imported(node, known):
  """The modules of the package that a statement imports."""
  names = []
  if isinstance(node, ast.Import):
    names = [alias.name for alias in node.names]
  elif isinstance(node, ast.ImportFrom) and node.module:
    # `from quantd import errors` names a module, too.
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
          wrong.append(f"{place}: {other} is imported below the top")
        if name.startswith(f"{PACKAGE}.tensors") and other.startswith(
            (f"{PACKAGE}.calls", f"{PACKAGE}.engines")):
          wrong.append(f"{place}: values import {other}")
  try:
    graphlib.TopologicalSorter(graph).prepare()
  except graphlib.CycleError as error:
    wrong.append("a circle: " + " <- ".join(error.args[1]))
  print(*wrong, sep="\n", end="\n" if wrong else "")
  return int(bool(wrong))


if __name__ == "__main__":
  here = pathlib.Path(__file__).resolve().parents[2]
  sys.exit(main(pathlib.Path(sys.argv[1]).resolve() if sys.argv[1:] else here))
