"""Quantizes rows of bf16 tensors in Spark: a function to copy and adapt.

python spark_frame.py 127.0.0.1:50151,127.0.0.1:50152
"""

import sys

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as sql

from quantd.columns import Columns, column_of


def quantize(
  frame,
  servers,
  format="nvfp4",
  dtype="bf16",
  id="id",
  shape="shape",
  data="bytes",
  **options,
):
  """A DataFrame of ids and parts; Spark repeats tasks that fail.

  `frame` has ids of any type, shapes (array<int>) and the elements (binary,
  little endian, row by row). fp32 parts become array<float>, others binary.
  """
  columns = Columns(servers, format, dtype, 4, None, options)
  types = columns.types()
  schema = sql.StructType([frame.schema[id]])
  for name, word in types.items():
    floats = sql.ArrayType(sql.FloatType(), False)
    schema.add(name, floats if word == "f32" else sql.BinaryType(), False)

  def one(name, shape, data):
    if shape is None or data is None:
      raise ValueError(f"null in row {name!r}")
    kind = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16}[dtype]
    try:
      return np.frombuffer(data, kind).reshape([int(np.uint32(d)) for d in shape])
    except (ValueError, OverflowError) as wrong:
      raise ValueError(f"row {name!r}: {wrong}") from None

  def parts(batch):
    ids, *rest = (column.to_pylist() for column in batch.columns)
    records = [one(*row) for row in zip(ids, *rest, strict=True)]
    made = {name: [] for name in types}
    for t in columns.quantize(records, ids):
      for kind, part in t.parts.items():
        a, name = part.array(), column_of(kind)
        made[name].append(a.ravel() if types[name] == "f32" else a.tobytes())
    arrays = [
      pa.array(
        made[name], pa.list_(pa.float32()) if word == "f32" else pa.binary()
      )
      for name, word in types.items()
    ]
    return pa.RecordBatch.from_arrays([batch.columns[0], *arrays], [id, *types])

  def run(batches):
    yield from map(parts, batches)

  return frame.select(id, shape, data).mapInArrow(run, schema)


def run(session, servers, records):
  """Rows of what quantd makes of uint16 arrays that hold bf16."""
  frame = session.createDataFrame(
    [(i, list(x.shape), bytearray(x.tobytes())) for i, x in enumerate(records)],
    "id long, shape array<int>, bytes binary",
  )
  return quantize(frame, servers).collect()


if __name__ == "__main__":
  values = np.random.default_rng(0).standard_normal((1000, 16, 64), np.float32)
  bits = (values.view(np.uint32) >> 16).astype(np.uint16)
  with SparkSession.builder.master("local[2]").getOrCreate() as session:
    print(len(run(session, sys.argv[1], bits)), "rows")
