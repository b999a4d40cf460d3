"""Shared fixtures: a server, and a connection for every engine."""

import importlib.util
import os
import signal

import numpy as np
import pytest

import quantd
from servers import Process

# The shape of `large`. The number of rows is prime.
ROWS, COLS = 1153, 1024


# Skips a test if the native engine is not built.
native_only = pytest.mark.skipif(
    importlib.util.find_spec("quantd._native") is None,
    reason="THE NATIVE ENGINE IS NOT BUILT HERE")


def engine_param(name):
  """Returns an engine as a parameter, skipped if it is not built."""
  return pytest.param(name, marks=[native_only] if name == "native" else [])


@pytest.fixture(scope="session")
def server():
  with Process() as process:
    yield process.address


@pytest.fixture(scope="session", params=[engine_param("grpc"), engine_param("native")])
def engine(request):
  return request.param


@pytest.fixture(scope="session")
def q(server, engine):
  with quantd.connect(server, engine=engine) as connection:
    yield connection


@pytest.fixture(scope="session")
def connect(engine):
  """Returns a function that connects with the engine. All connections are closed at the end."""
  made = []

  def function(target, **settings):
    if engine == "grpc" and settings.get("band_bytes"):
      pytest.skip("only the native engine has bands")
    made.append(quantd.connect(target, engine=engine, **settings))
    return made[-1]

  yield function
  for connection in made:
    connection.close()


@pytest.fixture(autouse=True)
def limit():
  """An alarm ends the process if a test hangs."""
  signal.alarm(int(os.environ.get("QUANTD_TEST_SECONDS", "60")))
  yield
  signal.alarm(0)


@pytest.fixture
def x():
  """Bell-shaped fp32 values with outliers and both zeros."""
  values = np.random.default_rng(7).standard_normal((96, 160))
  values[::17, ::13] *= 64
  values[3, :8] = [0.0, -0.0, 1e-30, -1e-30, 448, 6, -6, 0.5]
  return values.astype(np.float32)


@pytest.fixture(scope="session")
def large():
  """Values like those of `x`, enough that calls are cut into bands."""
  values = np.random.default_rng(11).standard_normal((ROWS, COLS))
  values[::17, ::13] *= 64
  values[3, :8] = [0.0, -0.0, 1e-30, -1e-30, 448, 6, -6, 0.5]
  return values.astype(np.float32)


@pytest.fixture(scope="session")
def plain(connect, server):
  """A connection without bands, closed with those of `connect`."""
  return connect(server)


def bf16(values):
  """Truncates fp32 to bf16. Returns the bits, and the values as fp32."""
  bits = values.astype(np.float32).view(np.uint32) >> 16
  return bits.astype(np.uint16), (bits << 16).view(np.float32)


def refused(field, call, *args, **keywords):
  """Checks that a call refuses an argument, and returns the error."""
  with pytest.raises(quantd.Invalid) as caught:
    call(*args, **keywords)
  error = caught.value
  assert error.field == field, error
  assert str(error).startswith(f"{field}: expected {error.expected}, got ")
  return error


def same(a, b):
  """Checks that two tensors have the same parts."""
  assert a.parts.keys() == b.parts.keys()
  for kind, part in a.parts.items():
    assert part.spec == b.parts[kind].spec, kind
    assert part.data.tobytes() == b.parts[kind].data.tobytes(), kind
