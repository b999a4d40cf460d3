"""Weight sync: a state dict in, buckets of a dialect's tensors out.

  import quantd.torch
  sync = quantd.torch.WeightSync(q, "nvfp4", dialect="modelopt")
  for bucket in sync.buckets(model.state_dict()):
    engine.update_weights(bucket)

A trainer sends its weights to inference engines again and again; these want
them quantized, under the names of their checkpoints. What did not change since
it was last sent is left out.
"""

import concurrent.futures
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

import torch

from quantd.calls.connection import Connection
from quantd.errors import Invalid
from quantd.options import QuantizeKeywords
from quantd.words import FORMATS, Format, Profile

__all__ = ["FUSED", "WeightSync", "is_linear"]

#: Siblings that engines pack into one matrix, so that they share an amax.
FUSED: tuple[tuple[str, ...], ...] = (
  ("q_proj", "k_proj", "v_proj"),
  ("gate_proj", "up_proj"),
  ("w1", "w3"),
  ("query", "key", "value"),
  ("wq", "wk", "wv"),
  ("to_q", "to_k", "to_v"),
  ("add_q_proj", "add_k_proj", "add_v_proj"),
  ("q_a_proj", "kv_a_proj_with_mqa"),
  ("in_proj_qkv", "in_proj_z"),
  ("in_proj_b", "in_proj_a"),
)
# Formats with one amax for a weight, which is what siblings share.
_SHARED = ("nvfp4", "fp8_e4m3")
_PROFILES: dict[str, Profile] = {
  "modelopt": "modelopt@0.47",
  "compressed-tensors": "compressed-tensors@0.20",
}
_WEIGHT = ".weight"
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
# Heads, embeddings, norms, routers: parts of names that stay as they are.
_LEFT = ("lm_head", "embed", "norm", "router", "wte", "wpe", "classifier")


def is_linear(name: str, tensor: torch.Tensor) -> bool:
  """Whether a tensor is the weight of a linear layer, by shape and name.

  Takes matrices named "….weight" with K a multiple of 32, and leaves heads,
  embeddings, norms and routers ("….gate.weight") as they are.

  Example:
    >>> is_linear("model.layers.0.mlp.up_proj.weight", torch.ones(64, 32))
    True
    >>> is_linear("lm_head.weight", torch.ones(64, 32))
    False
  """
  return (
    tensor.dim() == 2
    and tensor.dtype in _FLOATS
    and tensor.shape[1] % 32 == 0
    and tensor.numel() > 0
    and name.endswith(_WEIGHT)
    and not name.endswith(".gate.weight")
    and not any(part in name for part in _LEFT)
  )


class WeightSync:
  """Makes buckets of what changed, in the dialect of an engine.

  Keeps the hash of what was sent, 16 bytes a tensor. Not thread-safe.
  """

  def __init__(
    self,
    connection: Connection,
    format: Format = "nvfp4",
    *,
    dialect: str = "compressed-tensors",
    select: Callable[[str, torch.Tensor], bool] = is_linear,
    fused: Sequence[Sequence[str]] = FUSED,
    input_amax: Mapping[str, float] | None = None,
    bucket_bytes: int = 256 << 20,
    threads: int = 4,
    device: str | torch.device = "cpu",
    **keywords: Unpack[QuantizeKeywords],
  ) -> None:
    """Sends nothing yet.

    Args:
      connection: Where weights are quantized.
      format: One that the dialect stores: "nvfp4", "fp8_e4m3", "mxfp8_e4m3";
        compressed-tensors has "fp8_channel_e4m3", "fp8_block_2d_e4m3" and
        "mxfp4", too.
      dialect: "compressed-tensors" or "modelopt": whose names and layout.
      select: Which tensors are quantized, by name and tensor; others go
        through as they are.
      fused: Last names of siblings that share an amax, where the format has
        one: all of them that there are.
      input_amax: The largest magnitude that comes into each module, where
        activations are quantized with scales that are stored.
      bucket_bytes: What a bucket holds at most, in bytes that come out; more
        if one group of siblings alone has more.
      threads: Groups that are quantized at once.
      device: Where tensors are to be in the end.
      **keywords: Options, as for `Connection.quantize`; `profile` is that of
        the dialect's library if it is not given, where it has the format.

    Raises:
      quantd.Invalid: There is no such dialect.
    """
    if dialect not in _PROFILES:
      raise Invalid.of("dialect", " or ".join(_PROFILES), repr(dialect))
    FORMATS.parse("format", format)
    if keywords.get("profile") is None:
      keywords["profile"] = _PROFILES[dialect]
    self._connection = connection
    self._format = format
    self._dialect = dialect
    self._select = select
    self._fused = {name: tuple(group) for group in fused for name in group}
    self._input_amax = dict(input_amax or {})
    self._bucket_bytes = bucket_bytes
    self._threads = threads
    self._device = torch.device(device)
    self._keywords = keywords
    self._sent: dict[tuple[str, ...], bytes] = {}

  def buckets(
    self, tensors: Mapping[str, torch.Tensor]
  ) -> Iterator[dict[str, torch.Tensor]]:
    """Quantizes what changed, bucket by bucket.

    Siblings are in one bucket, and are all there if one of them changed, for
    their common amax may have. A bucket counts as sent when the next one is
    asked for: if a program fails while it sends one, that one and what follows
    come again with the next call.

    Args:
      tensors: A state dict. Tensors on a GPU are copied through pinned memory
        of the host. They must not change before the last bucket is there.

    Yields:
      Tensors by the dialect's names; codes of E2M1 are uint8 with two in a
      byte, FP8 codes and E4M3 scales are torch.float8_e4m3fn, E8M0 are uint8.

    Raises:
      quantd.Error: A call failed after all retries.

    Example:
      >>> sync = WeightSync(q, "nvfp4", dialect="modelopt")
      >>> state = {"m.down_proj.weight": torch.ones(64, 32)}
      >>> sorted(next(iter(sync.buckets(state))))[:2]
      ['m.down_proj.weight', 'm.down_proj.weight_scale']
    """
    bucket: dict[str, torch.Tensor] = {}
    inside: dict[tuple[str, ...], bytes] = {}
    size = 0
    for names, digest, made in self._changed(tensors):
      more = sum(t.numel() * t.element_size() for t in made.values())
      if bucket and size + more > self._bucket_bytes:
        yield bucket
        self._sent.update(inside)
        bucket, inside, size = {}, {}, 0
      bucket |= made
      inside[names] = digest
      size += more
    if bucket:
      yield bucket
      self._sent.update(inside)

  def forget(self) -> None:
    """Everything counts as changed: an engine has lost its weights."""
    self._sent.clear()

  def groups(
    self, tensors: Mapping[str, torch.Tensor]
  ) -> list[tuple[str, ...]]:
    """Names that belong together, in the order of their first ones."""
    together: dict[Any, list[str]] = {}
    for name, tensor in tensors.items():
      key: Any = name
      parent, _, leaf = name.removesuffix(_WEIGHT).rpartition(".")
      if (
        self._format in _SHARED
        and leaf in self._fused
        and self._select(name, tensor)
      ):
        key = (parent, self._fused[leaf], tensor.shape[1], tensor.dtype)
      together.setdefault(key, []).append(name)
    return [tuple(names) for names in together.values()]

  def _changed(
    self, tensors: Mapping[str, torch.Tensor]
  ) -> Iterator[tuple[tuple[str, ...], bytes, dict[str, torch.Tensor]]]:
    """Groups that changed; some are under way while one is taken."""
    waiting: list[Any] = []
    with concurrent.futures.ThreadPoolExecutor(self._threads) as pool:
      try:
        for names in self.groups(tensors):
          some = {name: tensors[name] for name in names}
          waiting.append(pool.submit(self._work, names, some))
          # No more than that is held at once.
          if len(waiting) > 2 * self._threads:
            yield from _what_changed(waiting.pop(0).result())
        while waiting:
          yield from _what_changed(waiting.pop(0).result())
      finally:
        for call in waiting:
          call.cancel()

  def _work(
    self, names: tuple[str, ...], tensors: Mapping[str, torch.Tensor]
  ) -> tuple[tuple[str, ...], bytes, dict[str, torch.Tensor] | None]:
    """A group: its hash, and its tensors unless it was sent before."""
    host = [_to_host(t.detach()) for t in tensors.values()]
    digest = _hash(host)
    if self._sent.get(names) == digest:
      return names, digest, None
    if not self._select(names[0], tensors[names[0]]):
      made = {names[0]: tensors[names[0]].detach()}
    else:
      made = self._quantize(names, host)
    return names, digest, {k: self._place(t) for k, t in made.items()}

  def _quantize(
    self, names: Sequence[str], tensors: Sequence[torch.Tensor]
  ) -> dict[str, torch.Tensor]:
    first = self._connection.quantize(
      tensors[0], self._format, fused=list(tensors[1:]), **self._keywords
    )
    modules = [name.removesuffix(_WEIGHT) for name in names]
    amaxes = [self._input_amax.get(module) for module in modules]
    # What comes into fused layers is one tensor.
    amax = max((a for a in amaxes if a is not None), default=None)
    out: dict[str, torch.Tensor] = {}
    for module, t in zip(modules, (first, *first.fused), strict=True):
      write = (
        t.to_modelopt
        if self._dialect == "modelopt"
        else t.to_compressed_tensors
      )
      out |= write(module, amax, like="torch")
    return out

  def _place(self, tensor: torch.Tensor) -> torch.Tensor:
    if self._device.type == "cpu":
      return _to_host(tensor)
    if tensor.device.type == "cpu" and self._device.type == "cuda":
      # Only from pinned memory does a copy not wait for the host.
      tensor = tensor.pin_memory()
    return tensor.to(self._device, non_blocking=True)


def _what_changed(
  done: tuple[tuple[str, ...], bytes, dict[str, torch.Tensor] | None],
) -> Iterator[tuple[tuple[str, ...], bytes, dict[str, torch.Tensor]]]:
  names, digest, made = done
  if made is not None:
    yield names, digest, made


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
  """In memory of the host; that of a GPU through pinned memory."""
  if tensor.device.type == "cpu":
    return tensor
  if tensor.device.type != "cuda":
    return tensor.cpu()
  pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
  stream = torch.cuda.current_stream(tensor.device)
  pinned.copy_(tensor, non_blocking=True)
  stream.synchronize()
  return pinned


def _hash(tensors: Iterable[torch.Tensor]) -> bytes:
  """Of types, shapes and bytes."""
  found = hashlib.blake2b(digest_size=16)
  for t in tensors:
    found.update(f"{t.dtype} {tuple(t.shape)}\n".encode())
    if t.numel():
      flat = t.contiguous().reshape(-1).view(torch.uint8)
      found.update(memoryview(flat.numpy()))
  return found.digest()
