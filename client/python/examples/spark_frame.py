"""Quantizes rows of tensors in Spark: a function to copy and adapt.

python spark_frame.py 127.0.0.1:50151,127.0.0.1:50152
"""

import sys

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as sql

import quantd


def quantize(frame, servers, format="nvfp4", dtype="bf16", **options):
  """Maps ids and tensors to ids and parts.

  The columns of `frame` are ids of any type, shapes (array<int>) and elements
  (binary, little endian, row-major). In the result, fp32 parts are array<float>
  and others binary. Spark repeats failed tasks.
  """
  made = quantd.Quantize(servers, format, column="x", dtype=dtype, **options)
  types = made.types()
  schema = sql.StructType([frame.schema[0]])
  for name, word in types.items():
    floats = sql.ArrayType(sql.FloatType(), False)
    schema.add(name, floats if word == "f32" else sql.BinaryType(), False)
  kind = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16}[dtype]

  def tensor(name, shape, data):
    try:
      # reshape takes -1 as "any size", but a uint64 cannot be -1.
      return np.frombuffer(data, kind).reshape(np.uint64(shape))
    except (TypeError, ValueError, OverflowError) as wrong:
      raise ValueError(f"row {name!r}: {wrong}") from None

  def parts(batch):
    rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
    out = made({"x": [tensor(*row) for row in rows]})
    arrays = [batch.columns[0]]
    for name, word in types.items():
      if word == "f32":
        values, of = [a.ravel() for a in out[name]], pa.list_(pa.float32())
      else:
        values, of = [a.tobytes() for a in out[name]], pa.binary()
      arrays.append(pa.array(values, of))
    return pa.RecordBatch.from_arrays(arrays, schema.names)

  return frame.mapInArrow(lambda batches: map(parts, batches), schema)


def run(session, servers, records):
  """Quantizes uint16 arrays with bf16 bits, one for each row."""
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
