"""Tests of failures: retries, several servers, and calls that end early."""

import contextlib
import os
import pathlib
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time

import grpc
import numpy as np
import pytest
import servers
from servers import busy, detail, fails, info, scripted

import quantd
from quantd import quantd_pb2 as pb

CODE = grpc.StatusCode
Reason = pb.ErrorDetail
FAST = quantd.Retry(initial_backoff=0.01, max_backoff=0.02)


@pytest.mark.parametrize("code, message", [
    (CODE.UNAVAILABLE, "no"), (CODE.UNKNOWN, "Stream removed")])
def test_a_lost_call_is_sent_again(connect, code, message):
  with scripted(fails(code, message), info) as server:
    assert connect(server.address, retry=FAST).info().version == "9.9"
    assert len(server.calls) == 2


# Two are malformed themselves, and one in its limits.
@pytest.mark.parametrize("reply", [b"\xff", b"\x12\x05", b"\x12\x01\xff"])
def test_malformed_replies_are_errors(connect, reply):
  with scripted(lambda *_: reply) as server:
    with pytest.raises(quantd.Error, match="not a valid quantd.v1 mess") as caught:
      connect(server.address).info()
    assert caught.value.code == "INTERNAL"


def test_attempts_end(connect):
  with scripted(fails(CODE.UNAVAILABLE, "gone")) as server:
    with pytest.raises(quantd.Unavailable, match="gone") as caught:
      connect(server.address, retry=quantd.Retry(3, 0.01, 0.02)).info()
    assert caught.value.attempts == 3 == len(server.calls)
    with pytest.raises(quantd.Unavailable):
      connect(server.address, retry=quantd.Retry(max_attempts=1)).info()
    assert len(server.calls) == 4


def test_a_busy_server_is_retried_after_its_pushback(connect):
  with scripted(busy(150), busy(150), info) as server:
    connect(server.address, retry=FAST).info()
    times = [at for at, _, _ in server.calls]
    assert len(times) == 3 and min(np.diff(times)) >= 0.15


def test_busy_until_the_deadline(connect):
  with scripted(busy(300)) as server:
    with pytest.raises(quantd.Busy) as caught:
      connect(server.address).info(timeout=0.5)
    assert caught.value.retry_delay == 0.3 and caught.value.attempts == 2


@pytest.mark.parametrize("pushback, calls", [("30", 2), ("never", 1)])
def test_pushback(connect, pushback, calls):
  trailer = ("grpc-retry-pushback-ms", pushback)
  with scripted(fails(CODE.UNAVAILABLE, "x", trailer), info) as server:
    connection = connect(server.address, retry=FAST)
    if calls == 2:
      connection.info()
    else:
      with pytest.raises(quantd.Unavailable):
        connection.info()
    assert len(server.calls) == calls


@pytest.mark.parametrize("code, reason, kind, fields", [
    (CODE.INVALID_ARGUMENT, Reason.REASON_INVALID_FIELD, quantd.Invalid,
     {"field": "rht", "expected": "a", "got": "b"}),
    (CODE.INVALID_ARGUMENT, Reason.REASON_TOO_LARGE, quantd.TooLarge, {"limit": 9}),
    (CODE.INVALID_ARGUMENT, Reason.REASON_MALFORMED, quantd.Invalid, {}),
    (CODE.UNAVAILABLE, Reason.REASON_DRAINING, quantd.Draining, {}),
    (CODE.UNAVAILABLE, Reason.REASON_NO_DEVICE, quantd.NoDevice, {}),
    (CODE.INTERNAL, Reason.REASON_DEVICE_FAULT, quantd.DeviceFault, {}),
    (CODE.DEADLINE_EXCEEDED, Reason.REASON_DEADLINE, quantd.DeadlineExceeded, {}),
    (CODE.CANCELLED, Reason.REASON_CANCELLED, quantd.Cancelled, {}),
    (CODE.UNAUTHENTICATED, None, quantd.Unauthenticated, {}),
    (CODE.UNIMPLEMENTED, None, quantd.Unimplemented, {}),
])
def test_errors_are_typed(connect, code, reason, kind, fields):
  trailers = [("quantd-request-id", "id-1")]
  if reason is not None:
    trailers.append(detail(reason, code, **fields))
  with scripted(fails(code, "why", *trailers)) as server:
    with pytest.raises(quantd.Error) as caught:
      connect(server.address, retry=quantd.Retry(1)).info()
  error = caught.value
  assert type(error) is kind and error.code == code.name
  assert error.request_id == "id-1" and error.attempts == 1
  for name, value in fields.items():
    assert getattr(error, name) == value
  again = pickle.loads(pickle.dumps(error))
  assert type(again) is kind and vars(again) == vars(error)
  assert isinstance(error, ValueError) == (code == CODE.INVALID_ARGUMENT)
  assert isinstance(error, TimeoutError) == (code == CODE.DEADLINE_EXCEEDED)


def test_a_status_sent_before_a_reset_counts(connect):
  # HAProxy resets the stream if the server answers while the client is still
  # sending.
  reset = fails(CODE.CANCELLED, "reset", ("quantd-request-id", "id-1"),
                detail(Reason.REASON_BUSY, retry_delay_ms=1))
  with scripted(*[reset] * 6, info) as server:
    connect(server.address, retry=FAST).info()
    assert len(server.calls) == 7


def test_a_failed_call_moves_to_another_server_at_once(connect):
  for failing in (fails(CODE.UNAVAILABLE, "drains", detail(Reason.REASON_DRAINING)),
                  busy(5000),
                  fails(CODE.INTERNAL, "x", detail(Reason.REASON_DEVICE_FAULT))):
    with scripted(failing) as bad, scripted(info) as good:
      connection = connect(f"{bad.address},{good.address}")
      begin = time.monotonic()
      for _ in range(8):
        connection.info()
      assert time.monotonic() - begin < 1
      # After a failure the server is avoided for a while.
      assert len(good.calls) == 8 and len(bad.calls) <= 1


def test_a_server_that_dies_loses_no_call(connect, x):
  with servers.Process() as first, servers.Process() as second:
    connection = connect(f"{first.address},{second.address}", retry=FAST)
    expected = connection.quantize(x, "nvfp4").rowwise.codes.copy()
    wrong, done = [], []

    def work():
      for _ in range(60):
        if not np.array_equal(connection.quantize(x, "nvfp4").rowwise.codes, expected):
          wrong.append(1)
        done.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
      thread.start()
    time.sleep(0.05)
    first.stop(signal.SIGKILL)
    for thread in threads:
      thread.join()
    assert not wrong and len(done) == 240


def test_no_server_listens(connect):
  with pytest.raises(quantd.Unavailable, match="127.0.0.1:1") as caught:
    connect("127.0.0.1:1", retry=FAST).info(timeout=5)
  assert caught.value.code == "UNAVAILABLE"
  with pytest.raises(quantd.Unavailable, match="none of 2"):
    connect("127.0.0.1:1,127.0.0.1:2", retry=FAST).info(timeout=5)


def test_unknown_host_names(connect, engine):
  name = "no-such-host.invalid:1"
  once = quantd.Retry(max_attempts=1)
  with pytest.raises(quantd.Unavailable) as caught:
    connect(name, retry=once).info(timeout=5)
  # In the pure engine gRPC resolves names, and reports errors when it sends.
  native = engine == "native"
  why = "the name does not resolve" if native else "resol"
  assert f"{name}: " in str(caught.value) and why in str(caught.value)
  assert caught.value.attempts == (0 if native else 1)
  with pytest.raises(quantd.Unavailable, match="none of 2") as caught:
    connect(f"{name},a.{name}", retry=FAST).info(timeout=5)
  assert all(f"{n}: " in str(caught.value) for n in (name, f"a.{name}"))


@contextlib.contextmanager
def mute():
  """The address of a server that accepts connections but never answers."""
  with socket.create_server(("127.0.0.1", 0)) as listening:
    yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_hanging_server_does_not_keep_the_call(connect, x):
  """The other server gets the call, in whichever order they are named."""
  with mute() as hung, servers.Process() as live:
    for target in (f"{hung},{live.address}", f"{live.address},{hung}"):
      connection = connect(target)
      begin = time.monotonic()
      t = connection.quantize(x, timeout=8)
      assert time.monotonic() - begin < 3
      assert t.request_id
      for _ in range(4):
        connection.quantize(x, timeout=8)
      assert time.monotonic() - begin < 4
    # With little time left, half of it remains for the other server.
    for _ in range(2):
      assert connect(f"{hung},{live.address}").info(timeout=1.5).version


def test_hanging_servers_alone(connect):
  with mute() as hung, mute() as other:
    with pytest.raises(quantd.DeadlineExceeded, match="within 500 ms"):
      connect(hung).info(timeout=0.5)
    begin = time.monotonic()
    with pytest.raises((quantd.DeadlineExceeded, quantd.Unavailable)):
      connect(f"{hung},{other}").info(timeout=1)
    assert time.monotonic() - begin < 2


def slow(seconds):
  def answer(request, context):
    time.sleep(seconds)
    return info(request, context)
  return answer


@pytest.mark.parametrize("answer", [slow(2), busy(5000), None])
def test_cancellation(connect, answer):
  """Cancels during a call, during a backoff, and while two servers hang."""
  with contextlib.ExitStack() as stack:
    if answer is None:
      target = ",".join(stack.enter_context(mute()) for _ in range(2))
    else:
      server = stack.enter_context(scripted(answer))
      target = server.address
    connection, stop = connect(target), quantd.Cancellation()
    threading.Timer(0.2, stop.cancel).start()
    begin = time.monotonic()
    with pytest.raises(quantd.Cancelled) as caught:
      connection.info(cancel=stop)
    assert caught.value.message == "cancelled by the caller"
    assert time.monotonic() - begin < 1
    with pytest.raises(quantd.Cancelled):
      connection.info(cancel=stop)
    assert answer is None or len(server.calls) == 1


def test_closing_ends_calls(connect):
  with scripted(slow(2)) as server:
    connection = connect(server.address)
    threading.Timer(0.2, connection.close).start()
    begin = time.monotonic()
    with pytest.raises(quantd.Cancelled) as caught:
      connection.info()
    assert time.monotonic() - begin < 1.5
    assert caught.value.message == "the connection was closed"
    connection.close()
    with pytest.raises(quantd.Cancelled) as caught:
      connection.info()
    assert caught.value.message == "the connection was closed"


@pytest.mark.parametrize("number, error", [
    (signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_ends_the_call_and_not_the_connection(connect, number, error):
  before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
  with scripted(slow(3), info) as server:
    connection = connect(server.address)
    main = threading.main_thread().ident
    threading.Timer(0.3, signal.pthread_kill, (main, number)).start()
    begin = time.monotonic()
    with pytest.raises(error):
      connection.info()
    assert time.monotonic() - begin < 1.5
    assert connection.info().version == "9.9"
  signal.signal(signal.SIGTERM, before)


def test_threads_share_a_connection(q, x):
  expected = q.quantize(x, "mxfp4").rowwise.codes.copy()
  found = []

  def work():
    for _ in range(20):
      found.append(np.array_equal(q.quantize(x, "mxfp4").rowwise.codes, expected))

  threads = [threading.Thread(target=work) for _ in range(8)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert found == [True] * 160


def test_pickle(q, x, engine):
  again = pickle.loads(pickle.dumps(q))
  assert (again.target, again.engine) == (q.target, engine)
  t = pickle.loads(pickle.dumps(q.quantize(x, "nvfp4", usage="both")))
  assert np.array_equal(t.dequantize(), q.quantize(x, "nvfp4").dequantize())
  again.close()


@pytest.mark.parametrize("how, support", [
    ("idle", "0"), ("idle", "1"), ("busy", "0"), ("exit", "0"), ("exit", "1"),
    ("before", "1")])
def test_fork(server, engine, how, support):
  """The child gets an error at once and can exit, and the parent continues.

  With the pure engine, which connects late, the child may make the first call.
  The parent is a new process, which has loaded no other gRPC.
  """
  if (engine, how) == ("native", "before"):
    pytest.skip("the native engine starts threads when it connects")
  path = pathlib.Path(__file__).with_name("forking.py")
  done = subprocess.run(
      [sys.executable, path, server, engine, how], timeout=50, capture_output=True,
      text=True, env={**os.environ, "GRPC_ENABLE_FORK_SUPPORT": support})
  assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_happens_before_the_first_call(connect):
  with scripted(info) as server:
    before = threading.active_count()
    connection = connect(server.address)
    pickle.dumps(connection)
    time.sleep(0.1)
    assert not server.calls and threading.active_count() == before
