"""What of the package's metadata depends on the tree around it and the build."""

import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]


def dynamic_metadata(
  settings: Mapping[str, Any], project: Mapping[str, Any]
) -> dict[str, Any]:
  """The version, that of the uppermost CMakeLists.txt, and what goes with it.

  A native wheel needs nanobind's run time, which serves every version of
  Python. The addresses of the project are known to whoever publishes it:
  QUANTD_HOMEPAGE.
  """
  # In a source distribution the tree lies inside the package.
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
  """As PyTorch's wheels say it: one that has CUDA's devices, too."""
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
