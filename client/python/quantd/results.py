"""Results of calls other than tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quantd import quantd_pb2 as pb
from quantd.words import DTYPES, FORMATS, KINDS, LAYOUTS, USAGES

__all__ = [
  "Device",
  "FormatSupport",
  "Maxima",
  "PartPlan",
  "Plan",
  "ServerInfo",
]


@dataclass(frozen=True, eq=False)
class Maxima:
  """Largest magnitudes of a tensor: fp32 arrays of its library.

  One number each, one for each group, or, with the domain "row", one for each
  row (rowwise) or column (columnwise).

  Attributes:
    rowwise: max |x|, of rows.
    columnwise: max |x|, of columns.
    rowwise_rht: The same after rotation along K; None where not asked for.
    columnwise_rht: The same after rotation along M.
    saw_nan: Whether there was a NaN.
    saw_inf: Whether there was an Inf.
  """

  rowwise: Any
  columnwise: Any
  rowwise_rht: Any
  columnwise_rht: Any
  saw_nan: bool
  saw_inf: bool


@dataclass(frozen=True)
class PartPlan:
  """One part of what `quantize` would give.

  Attributes:
    kind: Its word, "rowwise_scale".
    dtype: The word of its elements' type; of "e2m1x2" two share a byte.
    shape: In stored elements.
    layout: "linear" or "swizzled".
    nbytes: Its size.
  """

  kind: str
  dtype: str
  shape: tuple[int, ...]
  layout: str
  nbytes: int

  @staticmethod
  def of(ref: pb.TensorRef) -> "PartPlan":
    """Reads a reply."""
    return PartPlan(
      KINDS.word(ref.kind),
      DTYPES.word(ref.dtype),
      tuple(ref.shape),
      LAYOUTS.word(ref.layout),
      ref.size,
    )


@dataclass(frozen=True)
class Plan:
  """The parts that `quantize` would give, and the memory that it takes.

  Attributes:
    parts: By their words.
    input_bytes: Bytes to send.
    output_bytes: Bytes to receive.
    scratch_bytes: Memory of the device beside both.
  """

  parts: Mapping[str, PartPlan]
  input_bytes: int
  output_bytes: int
  scratch_bytes: int


@dataclass(frozen=True)
class Device:
  """A device of a server: bytes of its memory, and counters since its start."""

  name: str
  kind: str
  description: str
  healthy: bool
  memory_limit_bytes: int
  memory_high_water_bytes: int
  jobs: int
  rht_cache_hits: int
  rht_cache_misses: int
  rht_launches: int


@dataclass(frozen=True)
class FormatSupport:
  """A server's support of a format; `options` are the names in WIRE.md."""

  name: str
  device_kinds: tuple[str, ...]
  inputs: tuple[str, ...]
  usages: tuple[str, ...]
  rht_dimensions: tuple[int, ...]
  options: tuple[str, ...]


@dataclass(frozen=True)
class ServerInfo:
  """What a server is, can do and allows.

  Attributes:
    version: Of the server.
    max_request_bytes: The largest request.
    memory_budget_bytes: Memory for payloads of the whole server.
    max_rank: Most dimensions of a tensor.
    amax_estimation_scale: Its default; 0: no estimate.
    devices: Who does the work.
    formats: By their words.
  """

  version: str
  max_request_bytes: int
  memory_budget_bytes: int
  max_rank: int
  amax_estimation_scale: float
  devices: tuple[Device, ...]
  formats: Mapping[str, FormatSupport]

  @staticmethod
  def of(reply: pb.GetServerInfoReply) -> "ServerInfo":
    """Reads a reply."""
    devices = []
    for d in reply.devices:
      names = Device.__dataclass_fields__
      said: dict[str, Any] = {n: getattr(d, n, None) for n in names}
      said["healthy"] = d.state == pb.Device.STATE_HEALTHY
      devices.append(Device(**said))
    formats = {
      f.name or FORMATS.word(f.format): FormatSupport(
        f.name,
        tuple(f.device_kinds),
        tuple(DTYPES.word(t) for t in f.inputs),
        tuple(USAGES.word(u) for u in f.usages),
        tuple(f.rht_dimensions),
        tuple(f.options),
      )
      for f in reply.formats
    }
    return ServerInfo(
      reply.version,
      reply.limits.max_request_bytes,
      reply.limits.memory_budget_bytes,
      reply.limits.max_rank,
      reply.limits.amax_estimation_scale,
      tuple(devices),
      formats,
    )
