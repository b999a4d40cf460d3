"""Quantizes tensors by a quantd server, or by this process' own devices.

  import quantd
  q = quantd.connect("127.0.0.1:50151")
  t = q.quantize(x, "nvfp4", usage="both", rht="columnwise")
  t.rowwise.codes, t.rowwise.scales, t.amax
  y = t.dequantize("f32")

Arrays may be numpy's, PyTorch's, JAX's or anything with `__dlpack__`. Nothing
is connected or started before it is needed.
"""

import importlib
from typing import TYPE_CHECKING, Any

from quantd.connecting import connect
from quantd.connection import Connection
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

if TYPE_CHECKING:
  from quantd.copies import Copy, Statistics
  from quantd.file import load, save
  from quantd.quantizer import Quantizer
  from quantd.tensor import QuantizedTensor

  engine: str

__all__ = [
  "Busy",
  "Cancellation",
  "Cancelled",
  "Connection",
  "Copy",
  "DeadlineExceeded",
  "DeviceFault",
  "Draining",
  "Error",
  "Forked",
  "Invalid",
  "NoDevice",
  "QuantizedTensor",
  "Quantizer",
  "Retry",
  "Statistics",
  "Tls",
  "TooLarge",
  "Unauthenticated",
  "Unavailable",
  "Unimplemented",
  "connect",
  "engine",
  "load",
  "save",
]

# Found where they are first asked for, so that importing the package is quick.
_LATER = {
  "Copy": "quantd.copies",
  "QuantizedTensor": "quantd.tensor",
  "Statistics": "quantd.copies",
  "Quantizer": "quantd.quantizer",
  "load": "quantd.file",
  "save": "quantd.file",
}
_MODULES = ("aio", "hadamard", "ray", "spark", "torch")


def __getattr__(name: str) -> Any:
  if name == "engine":
    from quantd.engines import default_engine

    return default_engine()
  if name in _LATER:
    return getattr(importlib.import_module(_LATER[name]), name)
  if name in _MODULES:
    return importlib.import_module(f"quantd.{name}")
  raise AttributeError(f"module 'quantd' has no attribute {name!r}")
