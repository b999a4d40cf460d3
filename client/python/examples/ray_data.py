"""Quantizes a column of bf16 tensors in Ray Data, by two actors.

python ray_data.py 127.0.0.1:50151,127.0.0.1:50152
"""

import sys

import numpy as np
import ray

import quantd


def run(servers, records):
  """A dataset of what quantd makes of uint16 arrays that hold bf16."""
  data = ray.data.from_items(
    [{"id": i, "x": x} for i, x in enumerate(records)], override_num_blocks=8
  )
  return data.map_batches(
    quantd.Quantize,
    fn_constructor_args=(servers, "nvfp4"),
    fn_constructor_kwargs={"column": "x", "dtype": "bf16", "keep": False},
    batch_format="numpy",
    batch_size=250,
    concurrency=2,
    num_cpus=1,
  ).materialize()


if __name__ == "__main__":
  values = np.random.default_rng(0).standard_normal((1000, 16, 64), np.float32)
  bits = (values.view(np.uint32) >> 16).astype(np.uint16)
  print(run(sys.argv[1], bits).schema())
