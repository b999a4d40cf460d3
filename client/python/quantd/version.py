"""The version of the package, which is that of the whole tree."""

import functools
import importlib.metadata
import pathlib
import runpy


@functools.cache
def version() -> str:
  """The version of the installed package, or of the tree that it is run from."""
  try:
    return importlib.metadata.version("quantd")
  except importlib.metadata.PackageNotFoundError:
    # A build uses this program, too.
    ask = pathlib.Path(__file__).resolve().parents[1] / "native/version.py"
    if not ask.is_file():
      return "unknown"
    found = runpy.run_path(str(ask))["dynamic_metadata"]({}, {})
    return str(found["version"])
