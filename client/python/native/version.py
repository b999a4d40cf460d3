"""The version of the package, which is that of the tree around it."""

import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]


def dynamic_metadata(
  settings: Mapping[str, Any], project: Mapping[str, Any]
) -> dict[str, str]:
  """As project() in the uppermost CMakeLists.txt has it."""
  # In a source distribution the tree lies inside the package.
  for tree in (_PACKAGE / "tree", _PACKAGE.parents[1]):
    lists = tree / "CMakeLists.txt"
    if lists.is_file():
      found = re.search(
        r"^project\(quantd VERSION ([0-9.]+)", lists.read_text(), re.MULTILINE
      )
      if found:
        # As PyTorch's wheels say it: one that has CUDA's devices, too.
        label = "+cu13" if os.environ.get("QUANTD_CUDA") == "1" else ""
        return {"version": found[1] + label}
  raise RuntimeError("the version of quantd was not found")
