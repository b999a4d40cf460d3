"""Tests of the Spark example with real workers while a server dies.
"""

import os
import shutil
import signal
import sys

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="PYSPARK IS NOT INSTALLED")
if shutil.which("java") is None:
  pytest.skip("NO JAVA, WHICH SPARK RUNS ON", allow_module_level=True)

from pyspark.sql import SparkSession  # noqa: E402

from rig import pair, records, truth  # noqa: E402, F401

import spark_frame  # noqa: E402  of the examples
from metered import RECORDS  # noqa: E402


@pytest.fixture(scope="module")
def session():
  os.environ["PYSPARK_PYTHON"] = sys.executable
  session = (
      SparkSession.builder.master("local[2]")
      .config("spark.ui.enabled", "false")
      .config("spark.driver.memory", "1g")
      .config("spark.driver.bindAddress", "127.0.0.1")
      .config("spark.driver.host", "127.0.0.1")
      .config("spark.sql.execution.arrow.maxRecordsPerBatch", "250")
      .getOrCreate())
  session.sparkContext.setLogLevel("ERROR")
  yield session
  session.stop()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_every_record_once(session, pair, records, truth, how):
  a, b = pair
  watch = b.kill_after(1000, how)
  rows = spark_frame.run(session, f"{a.address},{b.address}", records)
  watch.join(30)
  assert b.killed_after is not None and b.killed_after < RECORDS / 2, (
      "the server was not killed in time")
  assert sorted(row.id for row in rows) == list(range(RECORDS))
  wrong = [
      row.id for row in rows
      if (bytes(row.codes), bytes(row.scales),
          np.array(row.amax, np.float32).tobytes()) != truth[row.id]
  ]
  assert wrong == []


def test_shapes_and_ids_of_any_kind(session, q, server):
  """Ids may be text, shapes may differ, and fp32 scales are arrays of floats."""
  x = {"one": np.ones((2, 3, 128), np.float32),
       "two": np.full((128, 256), -3, np.float32)}
  frame = session.createDataFrame(
      [(k, list(v.shape), bytearray(v.tobytes())) for k, v in x.items()],
      "name string, dims array<int>, tensor binary")
  out = spark_frame.quantize(
      frame, server, "fp8_block_e4m3", dtype="f32")
  assert out.columns == ["name", "codes", "scales"]
  rows = out.collect()
  assert {row.name for row in rows} == set(x)
  for row in rows:
    t = q.quantize(x[row.name], "fp8_block_e4m3")
    assert bytes(row.codes) == t.rowwise.codes.tobytes()
    assert row.scales == t.rowwise.scales.reshape(-1).tolist()


@pytest.mark.parametrize("shape, data", [
    ([2, 32], b"123"), ([-1, 32], bytes(256)), (None, bytes(8)), ([2, 32], None)])
def test_a_bad_row_fails_with_its_id(session, server, shape, data):
  frame = session.createDataFrame(
      [("bad-row", shape, data and bytearray(data))],
      "id string, shape array<int>, bytes binary")
  with pytest.raises(Exception, match="bad-row"):
    spark_frame.quantize(frame, server, "mxfp4", dtype="f32").collect()
