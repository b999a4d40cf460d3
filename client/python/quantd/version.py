"""The version of the package, which is the version of quantd."""

import functools
import importlib.metadata
import pathlib
import runpy


@functools.cache
def version() -> str:
  """Returns the version of the installed package or source tree."""
  try:
    return importlib.metadata.version("quantd")
  except importlib.metadata.PackageNotFoundError:
    # The build gets the version from the same file.
    ask = pathlib.Path(__file__).resolve().parents[1] / "native/version.py"
    if not ask.is_file():
      return "unknown"
    found = runpy.run_path(str(ask))["dynamic_metadata"]({}, {})
    return str(found["version"])
