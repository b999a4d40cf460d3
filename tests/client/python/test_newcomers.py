"""Tests of the package's types, names and defaults, as new users expect them."""

import asyncio
import importlib.util
import os
import pathlib
import pydoc
import subprocess
import sys
import typing

import numpy as np
import pytest
from conftest import refused
from relay import relayed

import quantd
import quantd.aio
from quantd import words
from quantd.tensors import arrays

ROOT = pathlib.Path(__file__).resolve().parents[3]


def bits(a):
  return np.ascontiguousarray(a).reshape(-1).view(np.uint8).tobytes()


def shown(a, library):
  """Returns the bytes and the shape of an array of a library."""
  assert arrays.library_of(a) == library
  if library == "torch":
    torch = sys.modules["torch"]
    return bits(a.contiguous().reshape(-1).view(torch.uint8).numpy()), tuple(a.shape)
  return bits(a), a.shape


# --- libraries ----------------------------------------------------------------


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("name, options", [
    ("nvfp4", {"usage": "both"}), ("mxfp8_e4m3", {}), ("fp8_e5m2", {"dbias": True})])
def test_results_have_the_inputs_library(q, x, library, name, options):
  """The bytes equal those for numpy arrays, and `like` converts the results."""
  module = pytest.importorskip(library, reason=f"{library.upper()} IS NOT INSTALLED")
  pytest.importorskip("ml_dtypes", reason="ML_DTYPES IS NOT INSTALLED")
  mine = module.from_numpy(x) if library == "torch" else module.numpy.asarray(x)
  plain = q.quantize(x, name, **options)
  t = q.quantize(mine, name, **options)
  assert (t.library, plain.library) == (library, "numpy")
  for kind in plain.parts:
    assert shown(t.part(kind), library) == shown(plain.part(kind), "numpy"), kind
    assert shown(t.like("numpy").get(kind), "numpy") == shown(plain.part(kind), "numpy")
    assert shown(plain.like(mine).part(kind), library) == shown(t.part(kind), library)
  assert t.like(library) is t
  assert shown(t.dequantize(), library) == shown(plain.dequantize(), "numpy")
  assert shown(t.dequantize(like="numpy"), "numpy") == shown(t.dequantize(), library)
  assert shown(t.rows(0, 64).rowwise.codes, library)[1][0] == 64
  assert shown(q.quantize(x, name, like=library).rowwise.scales, library)
  assert shown(q.apply_rht(mine), library) == shown(q.apply_rht(x), "numpy")
  assert shown(q.amax(mine).rowwise, library) == shown(q.amax(x).rowwise, "numpy")
  assert shown(q.amax(x, like=mine).rowwise, library)
  (many,) = q.quantize_all({"a": mine}, name).values()
  assert many.library == library


def test_no_library_of_that_name(q, x, tmp_path):
  t = q.quantize(x)
  t.save(tmp_path / "t")
  refused("like", t.like, "tf")
  refused("like", q.quantize, x, like="tf")
  refused("like", t.to_modelopt, "m", like=3)
  refused("like", q.amax, x, like="tf")
  refused("like", quantd.load, tmp_path / "t", like="tf")


# --- types of elements, options -----------------------------------------------


def dtypes():
  yield from ((np.float32, "f32"), (np.dtype("f2"), "f16"))
  if importlib.util.find_spec("ml_dtypes"):
    import ml_dtypes
    yield ml_dtypes.bfloat16, "bf16"
  if importlib.util.find_spec("torch"):
    import torch
    yield from ((torch.bfloat16, "bf16"), (torch.float16, "f16"))
  if importlib.util.find_spec("jax"):
    import jax
    yield jax.numpy.bfloat16, "bf16"


def test_types_of_libraries_are_words(q, x):
  t = q.quantize(x, "mxfp8_e4m3")
  for dtype, word in dtypes():
    for got, want in (
        (t.dequantize(dtype), t.dequantize(word)),
        (q.apply_rht(x, output=dtype), q.apply_rht(x, output=word)),
        (quantd.hadamard.rht_matrix(dtype=dtype), quantd.hadamard.rht_matrix(dtype=word)),
        (q.quantize(x, "mxfp4", dbias=dtype).part("dbias"),
         q.quantize(x, "mxfp4", dbias=word).part("dbias"))):
      assert got.dtype == want.dtype and bits(got) == bits(want), dtype
    assert q.empty((2, 2), dtype).dtype == q.empty((2, 2), word).dtype
    assert q.plan((4, 32), dtype=dtype) == q.plan((4, 32), dtype=word)
    assert quantd.Quantize("a:1", dtype=dtype).columns
  assert q.quantize(x, dtype=np.float32).dtype == "f32"
  for wrong in (np.int8, np.dtype("f8"), type, object()):
    with pytest.raises(quantd.Invalid):
      t.dequantize(wrong)


def test_rht_applies_to_all_requested_copies(q, x):
  for usage in ("rowwise", "columnwise", "both", None):
    t = q.quantize(x, "nvfp4", rht=True, usage=usage)
    want = q.quantize(x, "nvfp4", rht=usage or "both", usage=usage or "both")
    assert t.options == want.options
    assert all(bits(t.part(k)) == bits(want.part(k)) for k in want.parts)
  assert not q.quantize(x, "nvfp4", rht=False).rowwise.rotated


def test_literals_equal_the_enums_of_the_messages():
  for name, enum in (
      ("Format", words.FORMATS), ("Profile", words.PROFILES), ("Usage", words.USAGES),
      ("ScaleLayout", words.LAYOUTS), ("ScaleRule", words.SCALE_RULES),
      ("FourOverSix", words.FOUR_OVER_SIXES), ("NonFinite", words.NON_FINITES),
      ("HistoryRule", words.HISTORY_RULES), ("AmaxDomain", words.AMAX_DOMAINS)):
    literal, number = typing.get_args(getattr(words, name))
    assert number is int and set(typing.get_args(literal)) == set(enum), name
  assert typing.get_args(words.Priority) == words.PRIORITIES
  assert typing.get_args(typing.get_args(words.DType)[0]) == words.FLOATS


def test_type_checkers_find_wrong_calls(tmp_path):
  pytest.importorskip("mypy", reason="MYPY IS NOT INSTALLED")
  good = ('import numpy as np\nimport quantd\nfrom quantd import aio\n'
          'q = quantd.connect()\nx = np.ones((4, 32), np.float32)\n'
          't = q.quantize(x, "nvfp4", usage="both", timeout=3, priority="low")\n'
          'y: np.ndarray = t.dequantize(np.float32)\nq.dequantize(t, out=x).sum()\n'
          't.dequantize(like="numpy").sum()\nt.dequantize(out=x).sum()\n'
          'async def f() -> quantd.QuantizedTensor:\n'
          '  async with aio.connect(deadline=3) as a:\n'
          '    return await a.quantize(x, "mxfp4", timeout=1)\n')
  bad = ('q.quantize(x, "nvfp5")\n', 'q.quantize(x, usage="sideways")\n',
         'q.quantize(x, timeouts=3)\n', 't.dequantize("f8")\n',
         't.dequantize(like="numpy").nothing()\n',
         'q.info(priority="urgent")\n', 'q.dequantize(t, out=x).nothing()\n',
         'async def g() -> int:\n  return await aio.connect().quantize(x)\n',
         'async def h() -> None:\n  await aio.connect().quantize(x, "nvfp5")\n',
         'aio.connect(deadlin=3)\n', 'quantd.convert("a", "b", formats="nvfp4")\n')
  file = tmp_path / "user.py"
  file.write_text(good + "".join(bad))
  first = good.count("\n") + 1
  folder = pathlib.Path(quantd.__path__[0]).parent
  # Type checkers find installed packages without MYPYPATH.
  found = {} if folder.name == "site-packages" else {"MYPYPATH": str(folder)}
  done = subprocess.run(
      [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache",
       "--config-file", ROOT / "client/python/mypy.ini", file],
      capture_output=True, text=True, env={**os.environ, **found})
  lines = {int(line.split(":")[1]) for line in done.stdout.splitlines()
           if "user.py" in line and " error: " in line}
  want, at = set(), first
  for text in bad:
    want.add(at + text.count("\n") - 1)
    at += text.count("\n")
  assert lines == want, done.stdout


def test_names_are_completed():
  names = dir(quantd)
  assert {"load", "save", "Quantizer", "aio", "hadamard", "convert", "engine",
          "connect", "__version__"} <= set(names)
  assert set(quantd.__all__) <= set(names) and names == sorted(set(names))


def test_help_fits_a_screen():
  text = pydoc.plain(pydoc.render_doc(quantd.connect))
  lines = text.splitlines()
  assert len(lines) <= 40, len(lines)
  # Before Python 3.13 the signature is one long line.
  assert max(len(line) for line in lines if "connect(" not in line) <= 80


# --- state dicts --------------------------------------------------------------


def test_filters_equal_those_of_convert(q, x):
  state = {"m.up.weight": x, "m.down.weight": x, "lm_head.weight": x, "m.gate": x,
           "m.up.bias": x[0], "step": np.arange(4)}

  def names(**filters):
    return list(q.quantize_all(state, "mxfp4", **filters))

  matrices = ["m.up.weight", "m.down.weight", "lm_head.weight", "m.gate"]
  assert names() == matrices
  assert names(only=["m.*"]) == ["m.up.weight", "m.down.weight", "m.gate"]
  assert names(only=["m.up"]) == names(only=["m.up.weight"]) == ["m.up.weight"]
  assert names(ignore=["lm_head", "m.gat?"]) == matrices[:2]
  assert names(only=["m.*"], ignore=["re:.*down"]) == ["m.up.weight", "m.gate"]
  assert names(only=["re:up"]) == names(only=["up"]) == names(only=["m.u"]) == []
  assert names(only=("re:m[.]u",)) == ["m.up.weight"]
  for field, wrong in (("only", "m.*"), ("ignore", [3]), ("only", [""]),
                       ("ignore", ["re:"]), ("only", ["re:("])):
    refused(field, names, **{field: wrong})


# --- the environment ----------------------------------------------------------


def test_connect_reads_what_quantctl_reads(server, engine, x, monkeypatch, tmp_path):
  for name in list(os.environ):
    if name.startswith("QUANTD_"):
      monkeypatch.delenv(name)
  assert quantd.connect(engine="grpc").target == "127.0.0.1:50151"
  monkeypatch.setenv("QUANTD_SERVER", server)
  with quantd.connect(engine=engine) as q:
    assert q.target == server and q.quantize(x).request_id
  settings = quantd.connect(engine="grpc")._settings
  assert (settings.tls, settings.token, settings.memory_socket) == (None,) * 3
  monkeypatch.setenv("QUANTD_CLIENT_TOKEN", "abc")
  monkeypatch.setenv("QUANTD_CLIENT_TLS", "1")
  settings = quantd.connect(engine="grpc")._settings
  assert (settings.token, settings.tls) == ("abc", quantd.Tls())
  assert quantd.connect(server, engine="grpc")._settings.tls is None
  assert quantd.connect(engine="grpc", token="d")._settings.token == "d"
  monkeypatch.setenv("QUANTD_CLIENT_TLS_CA", str(tmp_path / "none"))
  with pytest.raises(quantd.Invalid, match=r"tls\.ca.*none"):
    quantd.connect(engine="grpc")
  monkeypatch.delenv("QUANTD_CLIENT_TLS_CA")
  monkeypatch.setenv("QUANTD_CLIENT_TLS_NAME", "gpu-a")
  assert quantd.connect(engine="grpc")._settings.tls.server_name == "gpu-a"
  file = tmp_path / "token"
  file.write_text("from-a-file\n")
  monkeypatch.setenv("QUANTD_CLIENT_TOKEN_FILE", str(file))
  assert quantd.connect(engine="grpc")._settings.token_file == str(file)


# --- pipelines ----------------------------------------------------------------


def test_a_function_of_batches(server, q, x):
  records = [x[:16, :64], x[16:32, :64]]
  made = quantd.Quantize(server, "nvfp4", column="x", keep=False)
  want = [q.quantize(r, "nvfp4") for r in records]
  for column in (records, np.stack(records), [r.tolist() for r in records]):
    out = made({"x": column, "id": [1, 2]})
    assert out["id"] == [1, 2] and set(out) == {"id", *made.columns}
    for i, t in enumerate(want):
      assert out["codes"][i].tobytes() == bits(t.rowwise.codes)
      assert out["scales"][i].tobytes() == bits(t.rowwise.scales)
      assert out["amax"][i] == t.amax


def test_datasets_of_hugging_face(server, q, x):
  datasets = pytest.importorskip("datasets", reason="DATASETS IS NOT INSTALLED")
  rows = x[:32, :64].reshape(4, 8, 64)
  half = (rows.view(np.uint32) >> 16).astype(np.uint16)
  for column, dtype in ((rows, None), (half, "bf16")):
    data = datasets.Dataset.from_dict({"x": column.tolist(), "id": list(range(4))})
    function = quantd.Quantize(server, "mxfp8_e4m3", column="x", dtype=dtype, keep=False)
    out = data.map(function, batched=True, batch_size=3, remove_columns=["x"])
    assert out.column_names == ["id", "codes", "scales"]
    for i, row in enumerate(out):
      t = q.quantize(column[i], "mxfp8_e4m3", dtype=dtype)
      assert np.array(row["codes"], np.uint8).tobytes() == bits(t.rowwise.codes)


# --- traces -------------------------------------------------------------------


def test_the_current_span_becomes_the_calls_trace(connect, server, engine, x):
  pytest.importorskip("opentelemetry.sdk", reason="OPENTELEMETRY IS NOT INSTALLED")
  from opentelemetry.sdk.trace import TracerProvider
  tracer = TracerProvider().get_tracer("test")

  async def ask(target):
    async with quantd.aio.connect(target, engine=engine) as q:
      await q.quantize(x)

  with relayed(server) as relay:
    q = connect(relay.address)
    with tracer.start_as_current_span("a") as span:
      q.info()
      q.quantize_all({"a": x, "b": x})
      asyncio.run(ask(relay.address))
      own = "00-0123456789abcdef0123456789abcdef-00f067aa0ba902b7-01"
      q.info(traceparent=own)
    q.info()
    context = span.get_span_context()
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    told = [m.get("traceparent") for n, m in relay.metadata if n != "GetServerInfo"]
    assert told == [parent] * 3
    asked = [m.get("traceparent") for n, m in relay.metadata if n == "GetServerInfo"]
    assert asked == [parent, own, None]
