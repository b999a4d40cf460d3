"""The engines, which carry the calls of connections, and the choice of one.

The rest of the package refers to engines only by name.
"""

import importlib

from quantd.engines.engine import Engine, Settings
from quantd.errors import Invalid
from quantd.values import shown

# Modules with a class Engine, which is constructed from Settings. The preferred
# one comes first.
_MODULES = {
  "native": "quantd.engines.native_engine",
  "grpc": "quantd.engines.grpc_engine",
}


def default_engine() -> str:
  """Returns the default engine: the native one if it is installed."""
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
  """Makes an engine. It connects with its first call."""
  if name is None:
    name = default_engine()
  if not isinstance(name, str) or name not in _MODULES:
    raise Invalid.of("engine", "grpc, native or None", shown(name))
  try:
    module = importlib.import_module(_MODULES[name])
  except ImportError as missing:
    raise ImportError(
      f"the engine {name!r} is not available: {missing}"
    ) from missing
  engine: Engine = module.Engine(settings)
  return engine
