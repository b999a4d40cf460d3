"""Tests of calls in chunks to hostile servers, with both engines."""

import gc
import pathlib
import threading
import time

import grpc
import numpy as np
import pytest
import servers
from conftest import same
from relay import relayed
from servers import fails, scripted

import quantd
from quantd import quantd_pb2 as pb

CODE = grpc.StatusCode
FAST = quantd.Retry(initial_backoff=0.01, max_backoff=0.02)


def chunk(data):
  return pb.StreamReply(chunk=data).SerializeToString()


def told(change):
  """Answers with the messages that `change` makes of a payload and its reply."""
  def stream(messages, context, real):
    *chunks, last = real(messages)
    payload = b"".join(pb.StreamReply.FromString(m).chunk for m in chunks)
    yield from change(payload, pb.StreamReply.FromString(last))
  return stream


def in_odd_chunks(payload, reply):
  for at in range(0, len(payload), 61):
    yield chunk(payload[at:at + 61])
  yield reply.SerializeToString()


def test_a_reply_in_odd_chunks(connect, server, plain, x):
  with relayed(server, stream=told(in_odd_chunks)) as relay:
    t = connect(relay.address, stream_from=0).quantize(x, "nvfp4", usage="both")
    assert t.request_id and t.streamed
    same(t, plain.quantize(x, "nvfp4", usage="both"))


def moved(payload, reply):
  reply.quantize.tensors[1].offset += 64
  yield chunk(payload)
  yield reply.SerializeToString()


def another_kind(payload, reply):
  yield chunk(payload)
  yield pb.StreamReply(rht_amax=pb.RhtAmaxReply()).SerializeToString()


WRONG = {
    "too much": lambda p, r: iter([chunk(p + b"x"), r.SerializeToString()]),
    "much too much": lambda p, r: (chunk(bytes(1 << 20)) for _ in range(10_000)),
    "too little": lambda p, r: iter([chunk(p[:-1]), r.SerializeToString()]),
    "no reply": lambda p, r: iter([chunk(p)]),
    "nothing": lambda p, r: iter([]),
    "an empty message": lambda p, r: iter([b""]),
    "no message": lambda p, r: iter([b"\x0a\x7fxx"]),
    "two replies": lambda p, r: iter([chunk(p)] + 2 * [r.SerializeToString()]),
    "more behind it": lambda p, r: iter(
        [chunk(p), r.SerializeToString(), chunk(b"x")]),
    "both in one": lambda p, r: iter(
        [chunk(p), r.SerializeToString() + chunk(b"x")]),
    "elsewhere": moved, "of another method": another_kind,
}


@pytest.mark.parametrize("how", list(WRONG))
def test_invalid_replies(connect, server, x, how):
  with relayed(server, stream=told(WRONG[how])) as relay:
    q = connect(relay.address, stream_from=0, retry=quantd.Retry(1))
    if how == "of another method" and q.engine == "native":
      # The C++ client assumes a server without streams, and sends one message.
      assert not q.quantize(x, "nvfp4").streamed
      return
    with pytest.raises(quantd.Error) as caught:
      q.quantize(x, "nvfp4", timeout=20)
    assert caught.value.code == "INTERNAL"


def test_sending_stops_when_a_stream_is_refused(connect):
  def answer(messages, context):
    next(messages)
    context.abort(CODE.UNAUTHENTICATED, "not you")
    yield b""

  with scripted(answer, stream=True) as server:
    q = connect(server.address, stream_from=0)
    x = np.zeros((1 << 14, 1024), np.float32)
    begin = time.monotonic()
    with pytest.raises(quantd.Unauthenticated, match="not you"):
      q.quantize(x, "nvfp4", given_amax=1.0)
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("answer", [
    # One server reads and never sends; the other sends and never reads.
    lambda messages, context: (m for m in messages if context.is_active() is None),
    lambda messages, context: iter(lambda: time.sleep(0.05) or chunk(b"x"), None),
])
def test_streams_that_stall_have_a_deadline(connect, large, answer):
  def stalls(messages, context):
    yield from answer(messages, context)
    while context.is_active():
      time.sleep(0.02)

  with scripted(stalls, stream=True) as server:
    q = connect(server.address, stream_from=0)
    begin = time.monotonic()
    with pytest.raises(quantd.DeadlineExceeded):
      q.quantize(large, "nvfp4", timeout=0.5)
    assert time.monotonic() - begin < 3
    stop = quantd.Cancellation()
    threading.Timer(0.2, stop.cancel).start()
    with pytest.raises(quantd.Cancelled):
      q.quantize(large, "nvfp4", cancel=stop)


@pytest.mark.parametrize("settings", [{"band_bytes": 1 << 18}, {"stream_from": 0}])
def test_cancellation_at_any_point(connect, settings):
  x4 = np.random.default_rng(3).standard_normal((4096, 1024), np.float32)
  # Uses a separate server, because servers penalize clients that cancel often.
  with servers.Process() as process:
    q = connect(process.address, **settings)
    before = threading.active_count()
    stopped = 0
    for i in range(12):
      stop = quantd.Cancellation()
      timer = threading.Timer(i * 0.004, stop.cancel)
      # The first call is cancelled before it begins. On a busy machine the
      # others may be cancelled too late.
      if i == 0:
        stop.cancel()
      timer.start()
      begin = time.monotonic()
      try:
        q.quantize(x4, "nvfp4", usage="both", cancel=stop)
      except quantd.Cancelled as error:
        assert error.message == "cancelled by the caller"
        stopped += 1
      assert time.monotonic() - begin < 5
      timer.join()
    assert stopped > 0
    begin = time.monotonic()
    while threading.active_count() > before and time.monotonic() - begin < 5:
      time.sleep(0.01)
    assert threading.active_count() <= before
    with pytest.raises(quantd.DeadlineExceeded):
      q.quantize(x4, "nvfp4", timeout=0.003)
    assert q.quantize(x4, "nvfp4").request_id


def test_a_stream_that_breaks_in_its_reply_is_resent(connect, server, plain, x):
  """The retry sends the original input, even if the reply has begun to overwrite it.
  """
  sent = []

  def stream(messages, context, real):
    sent.append(list(messages))
    if len(sent) == 1:
      first = pb.StreamRequest.FromString(sent[0][0])
      yield chunk(b"\x55" * (first.payload_bytes // 2))
      context.abort(CODE.UNAVAILABLE, "gone")
    yield from real(iter(sent[-1]))

  values = x.copy()
  with relayed(server, stream=stream) as relay:
    q = connect(relay.address, stream_from=0, retry=FAST)
    q.apply_rht(values, out=values)
  assert np.array_equal(values, plain.apply_rht(x))
  assert len(sent) == 2 and sent[0] == sent[1]


def test_a_server_without_streams(connect, x):
  refused = servers.detail(
      pb.ErrorDetail.REASON_TOO_LARGE, field="request", limit=5)
  with scripted(fails(CODE.INVALID_ARGUMENT, "too much", refused),
                fails(CODE.UNIMPLEMENTED, "no streams")) as server:
    q = connect(server.address, retry=quantd.Retry(1))
    with pytest.raises(quantd.TooLarge) as caught:
      q.quantize(x, "nvfp4")
    assert caught.value.limit == 5 and caught.value.field == "request"


def test_a_stream_needs_little_memory(connect, server):
  """A streamed tensor is never assembled into one message."""
  q = connect(server, stream_from=0)
  x = np.ones((24 << 10, 1024), np.float32)  # 96 MiB
  q.quantize(x[:1024], "nvfp4", given_amax=1.0)
  gc.collect()
  # Resets the peak to the current value.
  pathlib.Path("/proc/self/clear_refs").write_text("5")
  before = peak()
  q.quantize(x, "nvfp4", given_amax=1.0)
  assert peak() - before < 64 << 10, "KiB"


def peak():
  """Returns the peak memory of this process in KiB."""
  for line in pathlib.Path("/proc/self/status").read_text().splitlines():
    if line.startswith("VmHWM:"):
      return int(line.split()[1])
  raise LookupError("no VmHWM")
