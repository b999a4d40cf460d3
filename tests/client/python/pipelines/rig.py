"""Two servers, and records with their quantized parts.

These fixtures are not in a conftest.py, because tests import from the module
`conftest` of the parent folder, whose fixtures the tests here use, too.
"""

import hashlib
import pathlib
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[3] / "client/python/examples"))

from metered import RECORDS, SHAPE, Metered  # noqa: E402


@pytest.fixture
def pair():
  with Metered() as a, Metered() as b:
    yield a, b


@pytest.fixture(scope="session")
def records():
  """The bits of bf16 tensors, all of them different."""
  values = np.random.default_rng(15).standard_normal((RECORDS, *SHAPE))
  bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
  assert len({hashlib.sha256(x).digest() for x in bits}) == RECORDS
  return bits


@pytest.fixture(scope="session")
def truth(q, records):
  """Codes, scales and amax of every record, from direct calls."""
  made = []
  for x in records:
    t = q.quantize(x, "nvfp4", dtype="bf16")
    made.append((t.rowwise.codes.tobytes(),
                 t.rowwise.scales.tobytes(), t.rowwise.amax.tobytes()))
  return made
