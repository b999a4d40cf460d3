"""Tests of bands that share one amax, though each is sent only once (native engine)."""

import itertools
import time

import grpc
import pytest
import servers
from conftest import engine_param
from relay import relayed
from test_bands import same

import quantd
from quantd import quantd_pb2 as pb

CODE = grpc.StatusCode
FAST = quantd.Retry(initial_backoff=0.01, max_backoff=0.02)
BANDS = {"band_bytes": 1 << 20, "channels": 3}


@pytest.fixture(scope="session", params=[engine_param("native")])
def engine(request):
  """Only the native engine has bands."""
  return request.param


def test_each_band_is_sent_once(connect, server, plain, large):
  with relayed(server) as relay:
    q = connect(relay.address, **BANDS)
    for keywords in ({}, {"usage": "both", "rht": "both"}):
      relay.calls.clear()
      relay.chunk_bytes = 0
      got = q.quantize(large, "nvfp4", **keywords)
      same(got, plain.quantize(large, "nvfp4", **keywords))
      relay.calls.pop("GetServerInfo", None)
      assert relay.calls == {"Stream": got.bands} and got.bands == 5
      assert relay.chunk_bytes == large.nbytes


# --- failures -----------------------------------------------------------------


def first(number):
  """Returns a function that is true for its first `number` calls, over all threads."""
  count = itertools.count()
  return lambda: next(count) < number


def broken_behind_the_maxima(code, *trailers):
  mine = first(2)

  def stream(messages, context, real):
    breaks = mine()
    for reply in real(messages):
      yield reply
      if breaks:
        context.set_trailing_metadata(trailers)
        context.abort(code, "that was all")
  return stream


@pytest.mark.parametrize("code, trailers", [
    (CODE.UNAVAILABLE, ()), (CODE.RESOURCE_EXHAUSTED, (
        servers.detail(pb.ErrorDetail.REASON_BUSY, retry_delay_ms=60_000),)),
    (CODE.INTERNAL, ())])
def test_bands_are_resent_after_their_stream_ends(
    connect, server, plain, large, code, trailers):
  stream = broken_behind_the_maxima(code, *trailers)
  with relayed(server, stream=stream) as relay:
    q = connect(relay.address, retry=FAST, **BANDS)
    got = q.quantize(large, "nvfp4", usage="both", rht="both")
    same(got, plain.quantize(large, "nvfp4", usage="both", rht="both"))
    assert relay.calls["Stream"] == 5 and relay.calls["Quantize"] == 2
    assert "RhtAmax" not in relay.calls


def test_a_server_without_amax_streams(connect, server, plain, large):
  """An older server refuses streams that return maxima; the bands are sent again."""
  refused = servers.detail(pb.ErrorDetail.REASON_INVALID_FIELD, field="request")
  mine = first(2)

  def stream(messages, context, real):
    if mine():
      context.set_trailing_metadata((refused,))
      context.abort(CODE.INVALID_ARGUMENT, "what is that")
    yield from real(messages)

  with relayed(server, stream=stream) as relay:
    q = connect(relay.address, **BANDS)
    same(q.quantize(large, "nvfp4"), plain.quantize(large, "nvfp4"))
    assert relay.calls["RhtAmax"] == relay.calls["Quantize"] == 2


def maxima(**values):
  return pb.StreamReply(maxima=pb.Maxima(**values)).SerializeToString()


WRONG = {
    "none": lambda true: [pb.StreamReply(chunk=b"x").SerializeToString()],
    "too many": lambda true: [maxima(rowwise=[1.0, 2.0])],
    "of another side": lambda true: [maxima(columnwise=[1.0])],
    "of both sides": lambda true: [maxima(rowwise=[1.0], columnwise=[1.0])],
    "twice": lambda true: [true, true],
    "with a chunk": lambda true: [true + pb.StreamReply(chunk=b"x").SerializeToString()],
    "no message": lambda true: [b"\x2a\x7fxx"],
    "an empty one": lambda true: [b""],
}


@pytest.mark.parametrize("how", list(WRONG))
def test_invalid_maxima(connect, server, plain, large, how):
  def stream(messages, context, real):
    replies = iter(real(messages))
    yield from WRONG[how](next(replies))
    yield from replies

  with relayed(server, stream=stream) as relay:
    q = connect(relay.address, retry=quantd.Retry(1), **BANDS)
    begin = time.monotonic()
    if how in ("twice", "with a chunk"):
      # The error arrives after the maxima, so bands without a reply are sent
      # again.
      same(q.quantize(large, "nvfp4"), plain.quantize(large, "nvfp4"))
      return
    with pytest.raises(quantd.Error) as caught:
      q.quantize(large, "nvfp4", timeout=20)
    assert caught.value.code == "INTERNAL" and caught.value.message.startswith("rows ")
    assert time.monotonic() - begin < 10
