"""A training loop that sends its weights, quantized, to an engine.

python torch_sync.py 127.0.0.1:50151
"""

import sys

import torch

import quantd
from quantd.torch import WeightSync


class Block(torch.nn.Module):
  """Names and shapes of a layer as models have them."""

  def __init__(self):
    """Makes random weights."""
    super().__init__()
    for name, n, k in (
      ("q", 128, 128),
      ("k", 64, 128),
      ("v", 64, 128),
      ("o", 128, 128),
      ("gate", 256, 128),
      ("up", 256, 128),
      ("down", 128, 256),
    ):
      linear = torch.nn.Linear(k, n, bias=False, dtype=torch.bfloat16)
      self.add_module(f"{name}_proj", linear)
    self.norm = torch.nn.LayerNorm(128, dtype=torch.bfloat16)


def model(seed=0):
  """A model with random weights."""
  torch.manual_seed(seed)
  layers = torch.nn.ModuleDict({"0": Block()})
  return torch.nn.ModuleDict({"layers": layers})


class Engine:
  """Stands for an engine that takes weights: it counts what comes."""

  def __init__(self):
    """Has no weights yet."""
    self.weights = {}
    self.updates = []

  def update(self, buckets):
    """Takes buckets of tensors."""
    count = 0
    for bucket in buckets:
      self.weights |= bucket
      count += 1
    self.updates.append(count)


def run(server):
  """Sends a model, sends nothing as nothing changed, then what did."""
  trained, engine = model(), Engine()
  with quantd.connect(server) as q:
    sync = WeightSync(q, "nvfp4", dialect="modelopt")
    engine.update(sync.buckets(trained.state_dict()))
    engine.update(sync.buckets(trained.state_dict()))
    with torch.no_grad():
      trained["layers"]["0"].down_proj.weight.mul_(1.5)
    engine.update(sync.buckets(trained.state_dict()))
  return engine


if __name__ == "__main__":
  for name, tensor in run(sys.argv[1]).weights.items():
    print(name, tensor.dtype, list(tensor.shape))
