"""What goes wrong with calls in bands: by the native engine."""

import signal
import threading
import time

import grpc
import numpy as np
import pytest
import servers
from conftest import engine_param
from replies import reply_to
from servers import busy, fails, scripted

import quantd
from quantd import quantd_pb2 as pb

CODE = grpc.StatusCode
FAST = quantd.Retry(initial_backoff=0.01, max_backoff=0.02)
BANDS = {"band_bytes": 1 << 18, "channels": 2}


@pytest.fixture(scope="session", params=[engine_param("native")])
def engine(request):
  """Bands are its alone."""
  return request.param


@pytest.fixture(scope="module")
def large():
  values = np.random.default_rng(3).standard_normal((4096, 1024))
  return values.astype(np.float32)


@pytest.fixture(scope="module")
def expected(server, engine, large):
  with quantd.connect(server, engine=engine) as plain:
    return plain.quantize(large, "nvfp4", usage="both")


def same(got, expected):
  for kind, part in expected.parts.items():
    assert np.array_equal(got.parts[kind].data, part.data), kind


@pytest.mark.parametrize("settings", [BANDS, {**BANDS, "stream_from": 0}])
def test_a_server_that_dies_loses_no_band(connect, large, expected, settings):
  with servers.Process() as first, servers.Process() as second:
    q = connect(f"{first.address},{second.address}", retry=FAST, **settings)
    same(q.quantize(large, "nvfp4", usage="both"), expected)
    died = threading.Event()

    def progress(done, of):
      if done > of / 3 and not died.is_set():
        died.set()
        first.process.send_signal(signal.SIGKILL)

    got = q.quantize(large, "nvfp4", usage="both", progress=progress)
    assert died.is_set()
    same(got, expected)
    # Eight bands at most meet in an amax.
    assert 1 < got.bands <= 8 and got.streamed
    # It stays with the other one.
    same(q.quantize(large, "nvfp4", usage="both"), expected)


def test_bands_go_to_all_servers(connect, large, expected):
  with servers.Process() as first, servers.Process() as second:
    q = connect(f"{first.address},{second.address}", **BANDS)
    same(q.quantize(large, "nvfp4", usage="both"), expected)
    for process in (first, second):
      with quantd.connect(process.address, engine=q.engine) as alone:
        # One job for each of a few bands.
        assert sum(d.jobs for d in alone.info().devices) > 1


def test_a_band_that_one_is_too_busy_for_moves(connect, large, expected):
  with scripted(busy(30_000)) as bad, servers.Process() as good:
    q = connect(f"{bad.address},{good.address}", **BANDS)
    begin = time.monotonic()
    same(q.quantize(large, "nvfp4", usage="both"), expected)
    assert time.monotonic() - begin < 20


def test_a_band_that_fails_ends_the_others(connect, large):
  with scripted(fails(CODE.UNAUTHENTICATED, "who is there")) as server:
    q = connect(server.address, **BANDS)
    with pytest.raises(quantd.Unauthenticated, match="^rows .*who is there"):
      q.quantize(large, "nvfp4")
    # It asks what the server can, too.
    assert len(server.calls) <= 3


def slow(seconds):
  def answer(request, context):
    time.sleep(seconds)
    context.abort(CODE.UNAUTHENTICATED, "late")
  return answer


def test_deadline_of_all_bands(connect, large):
  with scripted(slow(1)) as server:
    q = connect(server.address, **BANDS)
    begin = time.monotonic()
    with pytest.raises(quantd.DeadlineExceeded, match="within 300 ms"):
      q.quantize(large, "nvfp4", timeout=0.3)
    assert time.monotonic() - begin < 0.95


def test_closing_ends_bands(connect, large):
  with scripted(slow(3)) as server:
    q = connect(server.address, **BANDS)
    threading.Timer(0.2, q.close).start()
    begin = time.monotonic()
    with pytest.raises(quantd.Cancelled) as caught:
      q.quantize(large, "nvfp4")
    assert time.monotonic() - begin < 2.5
    assert caught.value.message == "the connection was closed"


def test_interrupt_ends_all_bands(connect, large):
  with scripted(slow(3)) as server:
    q = connect(server.address, **BANDS)
    main = threading.main_thread().ident
    threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
      q.quantize(large, "nvfp4")
    assert time.monotonic() - begin < 2.5


def test_threads_share_a_connection_in_bands(connect, server, large, expected):
  q = connect(server, **{**BANDS, "channels": 4})
  same(q.quantize(large, "nvfp4", usage="both"), expected)
  found = []

  def work():
    same(q.quantize(large, "nvfp4", usage="both"), expected)
    found.append(True)

  threads = [threading.Thread(target=work) for _ in range(2)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert len(found) == 2


KINDS = {"Quantize": pb.QuantizeRequest, "RhtAmax": pb.RhtAmaxRequest}


def lies(change, method="Quantize"):
  """Replies to bands as they would be, but for what is changed."""
  def answer(request, context):
    reply, payload = reply_to(KINDS[method].FromString(request))
    reply.payload = payload
    change(reply)
    return reply.SerializeToString()
  return answer


def without_a_part(reply):
  del reply.tensors[0]


def smaller(reply):
  reply.tensors[0].size -= 4 if reply.tensors[0].size == 4 else 1


def unknown(reply):
  reply.tensors[0].kind = pb.TENSOR_KIND_DBIAS


@pytest.mark.parametrize("change", [without_a_part, smaller, unknown])
@pytest.mark.parametrize("amax", [None, 4.0])
def test_bands_that_are_not_what_was_asked_for(connect, large, change, amax):
  # The first pass asks for the amax.
  with scripted(lies(change, "RhtAmax" if amax is None else "Quantize")) as server:
    q = connect(server.address, retry=quantd.Retry(1), **BANDS)
    with pytest.raises(quantd.Error) as caught:
      q.quantize(large, "nvfp4", given_amax=amax)
    assert caught.value.code in ("INTERNAL", "INVALID_ARGUMENT")


def test_a_server_that_drops_an_option_of_a_band(connect, large):
  def dropped(reply):
    reply.options.ClearField("given_amax")

  with scripted(lies(dropped)) as server:
    q = connect(server.address, retry=quantd.Retry(1), **BANDS)
    with pytest.raises(quantd.Unimplemented, match="given_amax"):
      q.quantize(large, "nvfp4", given_amax=4.0)
