"""Quantizes rows of bf16 tensors in Spark.

python spark_frame.py 127.0.0.1:50151,127.0.0.1:50152
"""

import sys

import numpy as np
from pyspark.sql import SparkSession

import quantd.spark


def run(session, servers, records):
  """Rows of what quantd makes of uint16 arrays that hold bf16."""
  frame = session.createDataFrame(
    [(i, list(x.shape), bytearray(x.tobytes())) for i, x in enumerate(records)],
    "id long, shape array<int>, bytes binary",
  )
  return quantd.spark.quantize(frame, servers, "nvfp4", dtype="bf16").collect()


if __name__ == "__main__":
  values = np.random.default_rng(0).standard_normal((1000, 16, 64), np.float32)
  bits = (values.view(np.uint32) >> 16).astype(np.uint16)
  with SparkSession.builder.master("local[2]").getOrCreate() as session:
    print(len(run(session, sys.argv[1], bits)), "rows")
