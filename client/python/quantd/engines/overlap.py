"""Inputs that lie where outputs are written."""

import numpy as np

from quantd.engines.engine import Buffer, Into
from quantd.tensors.device import DeviceBytes


def apart(buffer: Buffer, into: Into) -> Buffer:
  """An input, or a copy of one that is to be written over."""
  if isinstance(buffer, DeviceBytes):
    for other in into.values():
      if isinstance(other, DeviceBytes) and buffer.overlaps(other):
        return buffer.copy()
    return buffer
  if memoryview(buffer).nbytes == 0:
    return buffer
  here = np.frombuffer(buffer, np.uint8)
  for other in into.values():
    if isinstance(other, DeviceBytes):
      continue
    size = memoryview(other).nbytes
    if size and np.may_share_memory(here, np.frombuffer(other, np.uint8)):
      return here.copy()
  return buffer
