"""Converts a model directory by Ray tasks, a band of shards each.

python ray_model.py MODEL OUTPUT SERVERS [FLAG OF QUANTCTL CONVERT...]
"""

import sys

import quantd.ray


def run(model, output, servers, flags=(), quantctl="quantctl"):
  """Converts; called again after whatever ended it, it goes on."""
  return quantd.ray.convert(
    str(model), str(output), servers=servers, flags=flags, quantctl=quantctl
  )


if __name__ == "__main__":
  print(run(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
