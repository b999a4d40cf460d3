"""A training loop that quantizes its weights and sends them to an engine.

python torch_sync.py 127.0.0.1:50151

`WeightSync` is a class to copy and adapt. Its input is a state dict. Its output
is buckets of tensors in an engine's dialect, without tensors that have not
changed since they were last sent.
"""

import concurrent.futures
import hashlib
import sys

import torch

import quantd

# Layers that engines fuse into one matrix. Their weights must share an amax.
FUSED = (
  ("q_proj", "k_proj", "v_proj"),
  ("gate_proj", "up_proj"),
  ("w1", "w3"),
  ("query", "key", "value"),
  ("to_q", "to_k", "to_v"),
  ("q_a_proj", "kv_a_proj_with_mqa"),
)
# Formats that have one amax per weight.
SHARED = ("nvfp4", "fp8_e4m3")
PROFILES = {
  "modelopt": "modelopt@0.47",
  "compressed-tensors": "compressed-tensors@0.20",
}
# A tensor stays unquantized if its name contains one of these.
LEFT = ("lm_head", "embed", "norm", "router", "wte", "wpe", "classifier")


def is_linear(name, tensor):
  """Whether a tensor is the weight of a linear layer, by shape and name."""
  return (
    tensor.dim() == 2
    and tensor.is_floating_point()
    and tensor.shape[1] % 32 == 0
    and name.endswith(".weight")
    and not name.endswith(".gate.weight")
    and not any(part in name for part in LEFT)
  )


class WeightSync:
  """Quantizes changed weights into buckets of tensors in an engine's dialect."""

  def __init__(
    self,
    connection,
    format="nvfp4",
    *,
    dialect="compressed-tensors",
    bucket_bytes=256 << 20,
    **options,
  ):
    """Creates an object that has sent nothing yet.

    A bucket has at most `bucket_bytes`, unless a single group of fused layers
    is larger. `options` are those of `Connection.quantize`.
    """
    self.connection = connection
    self.format = format
    self.dialect = dialect
    self.bucket_bytes = bucket_bytes
    self.options = {"profile": PROFILES[dialect], **options}
    self.fused = {name: group for group in FUSED for name in group}
    self.sent = {}

  def buckets(self, tensors):
    """Quantizes the changed weights, bucket by bucket.

    A bucket counts as sent when the next one is requested. If sending a bucket
    fails, the next call of this method yields it and the following ones again.
    """
    bucket, inside, size = {}, {}, 0
    groups = [{n: tensors[n] for n in names} for names in self.groups(tensors)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
      for names, digest, made in pool.map(self.made, groups):
        if made is None:
          continue
        more = sum(t.numel() * t.element_size() for t in made.values())
        if bucket and size + more > self.bucket_bytes:
          yield bucket
          self.sent |= inside
          bucket, inside, size = {}, {}, 0
        bucket |= made
        inside[names] = digest
        size += more
      if bucket:
        yield bucket
        self.sent |= inside

  def groups(self, tensors):
    """Returns groups of names to quantize together, in the order of `tensors`."""
    together = {}
    for name, tensor in tensors.items():
      key = name
      parent, _, leaf = name.removesuffix(".weight").rpartition(".")
      shares = self.format in SHARED and leaf in self.fused
      if shares and is_linear(name, tensor):
        key = (parent, self.fused[leaf], tensor.shape[1], tensor.dtype)
      together.setdefault(key, []).append(name)
    return [tuple(names) for names in together.values()]

  def made(self, tensors):
    """Returns a group's names, hash, and tensors (None if already sent)."""
    names = tuple(tensors)
    host = [t.detach().cpu().contiguous() for t in tensors.values()]
    found = hashlib.blake2b(digest_size=16)
    for t in host:
      found.update(f"{t.dtype} {tuple(t.shape)}\n".encode())
      found.update(memoryview(t.reshape(-1).view(torch.uint8).numpy()))
    if self.sent.get(names) == found.digest():
      return names, found.digest(), None
    if not is_linear(names[0], tensors[names[0]]):
      return names, found.digest(), {names[0]: host[0]}
    first = self.connection.quantize(
      host[0], self.format, fused=host[1:], **self.options
    )
    out = {}
    for name, t in zip(names, (first, *first.fused), strict=True):
      modelopt = self.dialect == "modelopt"
      write = t.to_modelopt if modelopt else t.to_compressed_tensors
      out |= write(name.removesuffix(".weight"))
    return names, found.digest(), out


def model(seed=0):
  """Returns one layer with random weights, whose names are those of a Llama."""
  torch.manual_seed(seed)
  block = torch.nn.ModuleDict({"norm": torch.nn.LayerNorm(128)})
  for name, n, k in (
    ("q", 128, 128),
    ("k", 64, 128),
    ("v", 64, 128),
    ("o", 128, 128),
    ("gate", 256, 128),
    ("up", 256, 128),
    ("down", 128, 256),
  ):
    block[f"{name}_proj"] = torch.nn.Linear(k, n, bias=False)
  layers = torch.nn.ModuleDict({"0": block})
  return torch.nn.ModuleDict({"layers": layers}).bfloat16()


def run(server):
  """Syncs a model three times: all of it, no change, one changed weight."""
  trained, engine, updates = model(), {}, []
  with quantd.connect(server) as q:
    sync = WeightSync(q, "nvfp4", dialect="modelopt")
    for step in range(3):
      if step == 2:
        with torch.no_grad():
          trained["layers"]["0"]["down_proj"].weight.mul_(1.5)
      buckets = list(sync.buckets(trained.state_dict()))
      for bucket in buckets:
        engine |= bucket  # an engine would load it here
      updates.append(len(buckets))
  return engine, updates


if __name__ == "__main__":
  for name, tensor in run(sys.argv[1])[0].items():
    print(name, tensor.dtype, list(tensor.shape))
