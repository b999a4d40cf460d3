"""Tests of progress reports, with both engines."""

import threading

import pytest
from conftest import COLS, refused


@pytest.mark.parametrize("settings", [
    {}, {"band_bytes": 1 << 18, "channels": 4}, {"stream_from": 0}])
def test_progress_rises_to_all(connect, server, large, settings):
  q = connect(server, **settings)
  t = q.quantize(large, "nvfp4", given_amax=300.0)
  calls = {
      large.nbytes: [lambda p: q.quantize(large, "nvfp4", progress=p),
                     lambda p: q.quantize(large, "mxfp8_e4m3", progress=p),
                     lambda p: q.amax(large, rht=True, progress=p),
                     lambda p: q.apply_rht(large, progress=p)],
      sum(t.parts[k].data.nbytes for k in t.parts): [
          lambda p: q.dequantize(t, progress=p), lambda p: t.dequantize(progress=p)],
  }
  for total, some in calls.items():
    for call in some:
      told, inside, lock = [], [], threading.Lock()

      def progress(done, of):
        assert lock.acquire(blocking=False), "two threads report at once"
        told.append((done, of))
        inside.append(threading.current_thread())
        lock.release()

      call(progress)
      dones = [done for done, _ in told]
      assert dones == sorted(set(dones))
      assert told[-1] == (total, total) and {of for _, of in told} == {total}
      assert (len(told) > 3) == ("band_bytes" in settings)


@pytest.fixture
def telling(connect, server, engine):
  """A connection that reports progress as often as its engine can."""
  return connect(server, band_bytes=(engine == "native") << 18)


def test_an_exception_in_progress_ends_the_call(telling, large):
  q, cut = telling, telling.engine == "native"
  seen = []

  def progress(done, of):
    seen.append(done)
    raise LookupError("enough")

  for amax in (None, 300.0):
    seen.clear()
    with pytest.raises(LookupError, match="enough"):
      q.quantize(large, "nvfp4", given_amax=amax, progress=progress)
    assert len(seen) == 1 and (seen[0] < large.nbytes) == cut
  with pytest.raises(LookupError, match="enough"):
    q.quantize(large[:32], "nvfp4", progress=progress)
  assert (q.quantize(large, "nvfp4").bands > 1) == cut


def test_closing_the_connection_in_progress_raises(telling, large):
  q = telling
  refused("progress", q.quantize, large, progress=lambda done, of: q.close())
  q.close()


def test_a_bar(telling, large, monkeypatch):
  tqdm = pytest.importorskip("tqdm.auto", reason="TQDM IS NOT INSTALLED")
  made = []

  class Bar(tqdm.tqdm):
    def __init__(self, **settings):
      super().__init__(**settings, disable=False, file=open("/dev/null", "w"))
      made.append(self)

  monkeypatch.setattr(tqdm, "tqdm", Bar)
  q = telling
  q.quantize(large, "nvfp4", progress=True)
  q.quantize_all({"a": large, "b": large[:512]}, "nvfp4", progress=True)
  assert [bar.n for bar in made] == [bar.total for bar in made]
  assert [bar.total for bar in made] == [large.nbytes, large.nbytes + 512 * COLS * 4]


def test_progress_of_many(telling, large):
  q = telling
  told = []
  tensors = {"a": large, "b": large[:300], "c": large[:0]}
  q.quantize_all(tensors, "nvfp4", progress=lambda *at: told.append(at))
  total = sum(t.nbytes for t in tensors.values())
  dones = [done for done, _ in told]
  assert dones == sorted(dones) and told[-1] == (total, total)
  assert {of for _, of in told} == {total} and len(told) >= len(tensors)


@pytest.mark.parametrize("progress", [1, "yes", None, [], object(), 0.0])
def test_invalid_progress(q, x, progress):
  t = q.quantize(x, "nvfp4")
  refused("progress", q.quantize, x, progress=progress)
  refused("progress", q.quantize_all, {"x": x}, progress=progress)
  refused("progress", q.dequantize, t, progress=progress)
