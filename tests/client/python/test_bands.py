"""Tests of calls in chunks (both engines) and in bands (native engine).

../bands/band_plan_test.cc compares the bytes of bands and of one call, for all
options.
"""

import random

import numpy as np
import pytest
from conftest import COLS, ROWS, same
from test_bytes import cases

import quantd


def test_maxima_and_rotations_in_streams(plain, connect, server, large):
  q = connect(server, channels=4, stream_from=0)
  for domain in ("tensor", "row"):
    for rht in (False, "rowwise", "columnwise", True):
      got, expected = (c.amax(large, rht=rht, domain=domain) for c in (q, plain))
      for field in ("rowwise", "columnwise", "rowwise_rht", "columnwise_rht"):
        ours, theirs = getattr(got, field), getattr(expected, field)
        assert (ours is None) == (theirs is None)
        assert ours is None or np.array_equal(ours, theirs), (domain, field)
  grouped = dict(splits=[512, 0, 600], partial_splits=True, domain="row")
  got, expected = (c.amax(large, rht=True, **grouped) for c in (q, plain))
  assert np.array_equal(got.columnwise_rht, expected.columnwise_rht)
  assert np.array_equal(got.rowwise, expected.rowwise)
  for inverse in (False, True):
    got, expected = (
        c.apply_rht(large, inverse=inverse, rht_dimension=64) for c in (q, plain))
    assert np.array_equal(got, expected)


def test_streams_of_every_option(plain, connect, server, x, monkeypatch):
  """Parts begin and end inside chunks. Covers groups and dbias, too."""
  q = connect(server, stream_from=0)
  seen = 0
  for name, keywords, _ in cases(plain):
    if q.engine == "grpc":
      from quantd.engines import streams
      size = random.Random(seen).choice([1, 61, 9999, 1 << 20])
      monkeypatch.setattr(streams, "CHUNK", max(size, x.nbytes // 50))
    got = q.quantize(x, name, **keywords)
    expected = plain.quantize(x, name, **keywords)
    same(got, expected)
    ours, theirs = got.report, expected.report
    assert (ours.saw_nan, ours.saw_inf) == (theirs.saw_nan, theirs.saw_inf)
    assert ours.replaced_globals == theirs.replaced_globals
    assert ours.device == theirs.device
    assert got.options == expected.options
    assert bool(got.request_id) == bool(expected.request_id)
    assert got.streamed and not expected.streamed
    if keywords.get("statistics"):
      assert got.stats == expected.stats
    for side in ("rowwise", "columnwise"):
      if f"{side}_data" in got.parts:
        ours, theirs = (c.dequantize(expected, usage=side) for c in (q, plain))
        assert np.array_equal(ours, theirs), (name, keywords)
    seen += 1
  assert seen > 120
  t = plain.quantize(x[:50], "nvfp4", rht="columnwise")
  assert np.array_equal(q.dequantize(t, rotated=True), plain.dequantize(t, rotated=True))


def test_calls_above_the_servers_message_limit_stream(engine, large):
  import servers
  with servers.Process("--max-request-bytes", "64KiB") as small:
    with quantd.connect(small.address, engine=engine) as q:
      for _ in range(2):
        assert q.quantize(large[:64], "nvfp4").streamed
      assert not q.quantize(large[:8], "nvfp4").streamed
      assert q.dequantize(q.quantize(large[:64], "fp8_e4m3")).shape == (64, COLS)


def test_calls_above_the_largest_message_stream(server, x, monkeypatch):
  """Lowers the limits of the pure engine. The C++ client has its own tests.
  """
  from quantd import quantd_pb2 as pb
  from quantd.engines import grpc_engine
  from quantd.engines.engine import Settings
  header = pb.ApplyRhtRequest(
      tensor=pb.Tensor(dtype=pb.DTYPE_BF16, shape=(96, 320)),
      options=pb.ApplyRhtOptions(output=pb.DTYPE_F32, rht=pb.Rht())).SerializeToString()
  ask = ("ApplyRht", header, [x.view(np.uint16)], {})
  expected = grpc_engine.Engine(Settings(server)).call(*ask)
  assert not expected.streamed and expected.parts[0].nbytes == 2 * x.nbytes
  for name, size in (("_LARGEST_REPLY", 8 * x.nbytes), ("_LARGEST_PAYLOAD", x.nbytes)):
    for less in (0, 1):
      monkeypatch.setattr(grpc_engine, name, size - less)
      got = grpc_engine.Engine(Settings(server)).call(*ask)
      assert got.streamed == bool(less)
      assert got.parts[0] == expected.parts[0]
    monkeypatch.undo()


@pytest.mark.parametrize("settings", [
    {"band_bytes": 1 << 20, "channels": 4}, {"stream_from": 0}])
def test_results_over_the_input(connect, server, plain, large, settings):
  """No band's result may overwrite input that another band has not read yet.
  """
  q = connect(server, **settings)
  for inverse in (False, True):
    x = large.copy()
    expected = plain.apply_rht(x, inverse=inverse)
    assert q.apply_rht(x, inverse=inverse, out=x) is x
    assert np.array_equal(x, expected)
  x = large.copy()
  codes = x.reshape(-1).view(np.uint8)[-ROWS * COLS // 2:].reshape(ROWS, COLS // 2)
  expected = plain.quantize(large, "nvfp4", given_amax=300.0)
  q.quantize(x, "nvfp4", given_amax=300.0, out={"rowwise_data": codes})
  assert np.array_equal(codes, expected.rowwise.codes)
