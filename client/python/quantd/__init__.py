"""Quantizes tensors on a quantd server, or on devices of this process.

  import quantd
  q = quantd.connect("127.0.0.1:50151")
  t = q.quantize(x, "nvfp4", usage="both", rht="columnwise")
  t.rowwise.codes, t.rowwise.scales, t.amax
  y = t.dequantize("f32")

Arrays may be from numpy, PyTorch, JAX or any library with `__dlpack__`. Results
are arrays of the same library. Connections are made on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

from quantd.calls.connecting import connect
from quantd.calls.connection import Connection
from quantd.columns import Quantize
from quantd.conversion import Conversion, convert
from quantd.engines.engine import Cancellation, Retry, Tls
from quantd.errors import (
  Busy,
  Cancelled,
  DeadlineExceeded,
  DeviceFault,
  Draining,
  Error,
  Forked,
  Invalid,
  NoDevice,
  TooLarge,
  Unauthenticated,
  Unavailable,
  Unimplemented,
)
from quantd.quantizer import Quantizer
from quantd.tensors.copies import Copy, Statistics
from quantd.tensors.file import save
from quantd.tensors.tensor import QuantizedTensor, load

if TYPE_CHECKING:
  from quantd import aio as aio
  from quantd import hadamard as hadamard
  from quantd.calibration import calibrate
  from quantd.calibration_file import Calibration
  from quantd.evaluation import Evaluation, evaluate

  engine: str
  __version__: str

__all__ = [
  "Busy",
  "Calibration",
  "Cancellation",
  "Cancelled",
  "Connection",
  "Conversion",
  "Copy",
  "DeadlineExceeded",
  "DeviceFault",
  "Draining",
  "Error",
  "Evaluation",
  "Forked",
  "Invalid",
  "NoDevice",
  "Quantize",
  "QuantizedTensor",
  "Quantizer",
  "Retry",
  "Statistics",
  "Tls",
  "TooLarge",
  "Unauthenticated",
  "Unavailable",
  "Unimplemented",
  "calibrate",
  "connect",
  "convert",
  "engine",
  "evaluate",
  "load",
  "save",
]

# Imported on first use, so that importing the package is fast.
_LATER = {
  "Calibration": "quantd.calibration_file",
  "Evaluation": "quantd.evaluation",
  "calibrate": "quantd.calibration",
  "evaluate": "quantd.evaluation",
}
_MODULES = ("aio", "hadamard")


def __dir__() -> list[str]:
  """Returns all names, including those imported on first use."""
  return sorted({*globals(), *__all__, *_MODULES, "__version__"})


def __getattr__(name: str) -> Any:
  if name == "engine":
    from quantd.engines import default_engine

    return default_engine()
  if name == "__version__":
    from quantd.version import version

    return version()
  if name in _LATER:
    return getattr(importlib.import_module(_LATER[name]), name)
  if name in _MODULES:
    return importlib.import_module(f"quantd.{name}")
  raise AttributeError(f"module 'quantd' has no attribute {name!r}")
