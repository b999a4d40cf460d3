"""The package's metadata that depend on the build and the tree around it."""

import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]


def dynamic_metadata(
  settings: Mapping[str, Any], project: Mapping[str, Any]
) -> dict[str, Any]:
  """Returns the version, from the top CMakeLists.txt, dependencies and URLs.

  A native wheel depends on nanobind-backend, which supports every version of
  Python. Publishers set QUANTD_HOMEPAGE to the address of the project.
  """
  # In a source distribution, the tree is inside the package.
  for tree in (_PACKAGE / "tree", _PACKAGE.parents[1]):
    lists = tree / "CMakeLists.txt"
    if lists.is_file():
      found = re.search(
        r"^project\(quantd VERSION ([0-9.]+)", lists.read_text(), re.MULTILINE
      )
      if found:
        return {"version": found[1] + _label(), **_additions()}
  raise RuntimeError("the version of quantd was not found")


def _label() -> str:
  """Returns the local version label, "+cu13" for a wheel with CUDA."""
  return "+cu13" if os.environ.get("QUANTD_CUDA") == "1" else ""


def _additions() -> dict[str, Any]:
  home = os.environ.get("QUANTD_HOMEPAGE", "").rstrip("/")
  pages = {
    "Homepage": home,
    "Source": home,
    "Changelog": f"{home}/blob/main/CHANGELOG.md",
  }
  native = os.environ.get("QUANTD_NATIVE") == "1"
  return {
    "dependencies": ["nanobind-backend>=1.0"] if native else [],
    "urls": pages if home else {},
  }
