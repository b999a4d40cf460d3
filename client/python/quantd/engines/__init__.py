"""Engines, which carry the calls of a connection, and the choice among them.

The rest of the package knows an engine only by its name.
"""

import importlib

from quantd.engines.engine import Engine, Settings
from quantd.errors import Invalid
from quantd.values import shown

__all__ = ["default_engine", "open_engine"]

# Modules with a class Engine that is constructed from Settings, preferred
# first.
_MODULES = {
  "native": "quantd.engines.native_engine",
  "grpc": "quantd.engines.grpc_engine",
}


def default_engine() -> str:
  """The default engine: the native one if it is installed."""
  for name, module in _MODULES.items():
    try:
      importlib.import_module(module)
    except ImportError:
      continue
    return name
  raise ImportError(
    "quantd needs its compiled module, or the package grpcio: pip install grpcio"
  )


def open_engine(settings: Settings, name: str | None = None) -> Engine:
  """Makes an engine, which does not connect before the first call."""
  if name is None:
    name = default_engine()
  if not isinstance(name, str) or name not in _MODULES:
    raise Invalid.of("engine", "grpc, native or None", shown(name))
  try:
    module = importlib.import_module(_MODULES[name])
  except ImportError as missing:
    raise ImportError(
      f"the engine {name!r} cannot be had: {missing}"
    ) from missing
  engine: Engine = module.Engine(settings)
  return engine
