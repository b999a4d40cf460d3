"""Tests of the native engine's memory, locks and ownership."""

import dataclasses
import gc
import threading
import time

import numpy as np
import pytest

import quantd
from conftest import native_only, same
from quantd import quantd_pb2 as pb
from quantd.engines.engine import Settings
from servers import scripted
from test_arguments import over_inputs

pytestmark = native_only

CODES, SCALES, AMAX = (pb.TENSOR_KIND_ROWWISE_DATA, pb.TENSOR_KIND_ROWWISE_SCALE,
                       pb.TENSOR_KIND_ROWWISE_AMAX)


def make(target, **settings):
  from quantd.engines.native_engine import Engine
  return Engine(Settings(target, **settings))


@pytest.fixture(scope="module")
def native(server):
  engine = make(server)
  yield engine
  engine.close()


def header(rows, cols, **options):
  return pb.QuantizeRequest(
      tensor=pb.Tensor(dtype=pb.DTYPE_BF16, shape=[rows, cols]),
      options=pb.QuantizeOptions(format=pb.FORMAT_NVFP4, **options),
  ).SerializeToString()


def bits(rows, cols, seed=1):
  """Random bf16 between 1 and 4 of either sign, as bits."""
  random = np.random.default_rng(seed)
  values = random.integers(0x3F80, 0x4080, (rows, cols), dtype=np.uint16)
  return values | random.integers(0, 2, (rows, cols), dtype=np.uint16) << 15


def slow(seconds):
  def answer(request, context):
    until = time.monotonic() + seconds
    while context.is_active() and time.monotonic() < until:
      time.sleep(0.01)
    return pb.GetServerInfoReply(version="slow").SerializeToString()
  return answer


def ask(engine):
  return engine.call("GetServerInfo", b"", [], {})


def test_parts_outlive_engine_and_input(server):
  engine = make(server)
  x = bits(256, 512)
  reply = engine.call("Quantize", header(256, 512), [x], {})
  codes = np.frombuffer(reply.parts[0], np.uint8)
  part = reply.parts[1]
  said = [bytes(p) for p in reply.parts]
  engine.close()
  del engine, reply
  gc.collect()
  filler = [np.full(64 << 10, i, np.uint8) for i in range(64)]
  assert bytes(codes) == said[0] and bytes(part) == said[1]
  assert part.readonly and not codes.flags.writeable
  del part
  gc.collect()
  assert bytes(codes) == said[0]
  del filler


def test_buffers_are_released(native):
  """Borrowed buffers are released, whether a call succeeds or fails."""
  data = bytearray(bits(16, 64).tobytes())
  codes = bytearray(16 * 32)
  native.call("Quantize", header(16, 64), [data], {CODES: codes})
  data.extend(b"ab")
  codes.extend(b"a")
  with pytest.raises(quantd.Invalid):
    native.call("Quantize", header(16, 64), [data], {CODES: codes})
  with pytest.raises(BufferError):
    native.call("Quantize", header(16, 64), [data], {CODES: b"x"})
  data.extend(b"ab")
  codes.extend(b"a")


def test_invalid_buffers_are_refused(native):
  for wrong in (None, 7, "text"):
    with pytest.raises(TypeError):
      native.call("Quantize", header(16, 64), [wrong], {})
  strided = bits(16, 128)[:, ::2]
  with pytest.raises((BufferError, ValueError)):
    native.call("Quantize", header(16, 64), [strided], {})
  with pytest.raises(quantd.Invalid) as error:
    native.call("Quantize", b"\xff\xff", [], {})
  assert error.value.code == "INVALID_ARGUMENT"
  with pytest.raises(ValueError):
    native.call("NoSuchMethod", b"", [], {})
  with pytest.raises(quantd.Invalid, match="into"):
    native.call("Quantize", header(16, 64), [bits(16, 64)],
                {CODES: bytearray(3)})


def test_decodes_from_one_buffer_or_three(native):
  x = bits(64, 512)
  parts = [bytes(p) for p in native.call(
      "Quantize", header(64, 512), [x], {}).parts]
  message = pb.DequantizeRequest(
      tensor=pb.Tensor(shape=[64, 512]),
      options=pb.DequantizeOptions(
          format=pb.FORMAT_NVFP4, usage=pb.USAGE_ROWWISE,
          output=pb.DTYPE_F32)).SerializeToString()
  joined = b"".join(parts)
  cuts = [parts, [joined], [joined[:100], joined[100:]]]
  read = [native.call("Dequantize", message, c, {}) for c in cuts]
  values = [bytes(r.parts[0]) for r in read]
  assert values[0] == values[1] == values[2]
  error = np.abs(np.frombuffer(values[0], np.float32).reshape(64, 512) -
                 (x.astype(np.uint32) << 16).view(np.float32))
  assert error.max() < 0.7


def test_lock_of_the_interpreter_is_free_during_a_call():
  with scripted(slow(0.5)) as server:
    engine = make(server.address)
    thread = threading.Thread(target=ask, args=(engine,))
    thread.start()
    ticks = 0
    while thread.is_alive():
      time.sleep(0.01)
      ticks += 1
    # The call lasts about 50 ticks.
    assert ticks > 20
    engine.close()


def test_local_devices(server, x):
  """Local devices give the same bytes as a server."""
  options = {"usage": "both", "statistics": True}
  with (quantd.connect("local", engine="native") as here,
        quantd.connect(server, engine="native") as there):
    ours, theirs = (q.quantize(x, "nvfp4", **options) for q in (here, there))
    same(ours, theirs)
    assert ours.stats == theirs.stats and ours.options == theirs.options
    assert [device.kind for device in here.info().devices] == ["cpu"]
  with pytest.raises(quantd.Error) as error:
    quantd.connect("local:cuda:77", engine="native")
  assert error.value.code in ("NOT_FOUND", "UNIMPLEMENTED")


def test_local_devices_may_write_over_their_input():
  with quantd.connect("local:cpu", engine="native") as q:
    over_inputs(q)


def test_an_interrupted_call_keeps_its_input():
  """A call that a signal interrupts is repeated with the original input."""
  from quantd.engines.native_engine import apart
  memory = np.arange(64, dtype=np.uint8)
  x, beside = memory[:32], memory[32:]
  assert apart(x, {CODES: beside}) is x
  assert apart(memory[:0], {CODES: memory}) is not None
  kept = apart(x, {CODES: memory[16:48]})
  memory[:] = 0
  assert np.array_equal(kept, np.arange(32))


def test_answers_equal_those_of_the_pure_engine(server, x):
  answers = []
  for engine in ("native", "grpc"):
    with quantd.connect(server, engine=engine) as q:
      info = dataclasses.replace(q.info(), devices=())  # devices count jobs
      t = q.quantize(x, "nvfp4", usage="both", statistics=True)
      answers.append((info, q.plan(x.shape, "nvfp4"), t.options, t.report))
  assert answers[0] == answers[1]
