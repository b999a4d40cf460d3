"""Tests of traceparent and priority, which calls send beside the request."""

import asyncio
import pathlib
import time

import pytest
import servers
from conftest import refused
from relay import relayed

import quantd
import quantd.aio

TRACE = "0123456789abcdef0123456789abcdef"
SPAN = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
TOLD = {"traceparent": PARENT, "priority": "low"}


def tags(metadata):
  return metadata.get("traceparent"), metadata.get("quantd-priority")


def calls(q, x, t):
  """Returns a function for every method, which calls it with options."""
  return {
      "Quantize": lambda **k: q.quantize(x, "nvfp4", **k),
      "Dequantize": lambda **k: q.dequantize(t, **k),
      "RhtAmax": lambda **k: q.amax(x, **k),
      "ApplyRht": lambda **k: q.apply_rht(x, **k),
      "DescribeQuantize": lambda **k: q.plan(x.shape, **k),
      "GetServerInfo": lambda **k: q.info(**k),
  }


def test_every_call_sends_them(connect, server, q, x):
  t = q.quantize(x)
  with relayed(server) as relay:
    for method, call in calls(connect(relay.address), x, t).items():
      for keywords, expected in (
          ({}, (None, None)), ({"priority": "normal"}, (None, None)),
          (TOLD, (PARENT, "low")), ({"priority": "high"}, (None, "high"))):
        relay.metadata.clear()
        call(**keywords)
        ((name, metadata),) = relay.metadata
        assert name == method and tags(metadata) == expected


def test_coroutines_send_them(server, engine, q, x):
  async def ask(target):
    async with quantd.aio.connect(target, engine=engine) as connection:
      for call in calls(connection, x, q.quantize(x)).values():
        await call(**TOLD)
      await connection.quantize_all({"a": x, "b": x}, **TOLD)

  with relayed(server) as relay:
    asyncio.run(ask(relay.address))
    assert len(relay.metadata) == 8
    assert {tags(m) for _, m in relay.metadata} == {(PARENT, "low")}


def test_helpers_that_make_calls_send_them(connect, server, x):
  with relayed(server) as relay:
    q = connect(relay.address)
    t = quantd.Quantizer(q, "nvfp4")(x, **TOLD)
    t.dequantize(**TOLD)
    assert {tags(m) for _, m in relay.metadata} == {(PARENT, "low")}
    relay.metadata.clear()
    quantd.Quantizer(q, amax_reduction=lambda a: a)(x, **TOLD)
    assert len(relay.metadata) == 2
    assert {tags(m) for _, m in relay.metadata} == {(PARENT, "low")}


@pytest.mark.parametrize("settings", [
    {"band_bytes": 1 << 20}, {"stream_from": 0},
    {"band_bytes": 1 << 20, "stream_from": 0}])
@pytest.mark.parametrize("amax", [None, 300.0])
def test_bands_and_streams_send_them(connect, server, large, settings, amax):
  with relayed(server) as relay:
    q = connect(relay.address, **settings)
    t = q.quantize(large, "nvfp4", given_amax=amax, **TOLD)
    assert len(relay.metadata) >= t.bands
    assert {tags(m) for _, m in relay.metadata} == {(PARENT, "low")}


def test_the_server_logs_the_trace(connect, engine, large, x):
  with servers.Process("--log-level", "debug") as process:
    q = connect(process.address, band_bytes=(engine == "native") << 20)
    t = q.quantize(x, traceparent=PARENT, priority="low")
    bands = q.quantize(large, "nvfp4", traceparent=f"00-{TRACE[::-1]}-{SPAN}-00")
    assert (bands.bands > 1) == (engine == "native")
    log = pathlib.Path(process.log.name)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and TRACE[::-1] not in log.read_text():
      time.sleep(0.05)
    line = next(l for l in log.read_text().splitlines() if TRACE in l)
    assert SPAN in line and t.request_id in line


@pytest.mark.parametrize("value", [
    "", "x", PARENT.upper(), PARENT[:-1], PARENT + "-more", "ff" + PARENT[2:],
    f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", PARENT + "\r\nx",
    PARENT + "\n", " " + PARENT, "cc" + PARENT[2:] + "- \n", PARENT.encode(),
    "cc" + PARENT[2:] + "-" + "x" * 300, 3, True, [PARENT], PARENT.replace("-", "_"),
    PARENT.replace("a", "ä"), PARENT.replace("0", "٠")])
def test_invalid_traces(q, x, value):
  for call in calls(q, x, q.quantize(x)).values():
    error = refused("traceparent", call, traceparent=value)
    assert "W3C Trace Context" in error.expected


def test_traces_of_later_versions(connect, server, q, x):
  with relayed(server) as relay:
    for text in ("cc" + PARENT[2:], "01" + PARENT[2:] + "-what-they=have"):
      connect(relay.address).info(traceparent=text)
      assert tags(relay.metadata[-1][1])[0] == text


@pytest.mark.parametrize("value", [
    "", "High", "urgent", "low ", None, 1, True, b"low", ["low"], "low\n"])
def test_invalid_priorities(q, x, value):
  for call in calls(q, x, q.quantize(x)).values():
    assert refused("priority", call, priority=value).expected == "high or normal or low"
