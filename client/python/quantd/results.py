"""Results of calls that are not tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quantd import quantd_pb2 as pb
from quantd.words import DTYPES, FORMATS, KINDS, LAYOUTS, USAGES


@dataclass(frozen=True, eq=False)
class Maxima:
  """Largest magnitudes of a tensor, as fp32 arrays of its library.

  Each array has a single number, or one for each group. With the domain "row"
  it has one for each row (rowwise) or column (columnwise).

  Attributes:
    rowwise: max |x| over rows.
    columnwise: max |x| over columns.
    rowwise_rht: max |x| over rows after rotation along K. None if not
      requested.
    columnwise_rht: max |x| over columns after rotation along M. None if not
      requested.
    saw_nan: Whether the tensor has a NaN.
    saw_inf: Whether the tensor has an Inf.
  """

  rowwise: Any
  columnwise: Any
  rowwise_rht: Any
  columnwise_rht: Any
  saw_nan: bool
  saw_inf: bool


@dataclass(frozen=True)
class PartPlan:
  """The description of a part that `quantize` would return.

  Attributes:
    kind: The kind of part, such as "rowwise_scale".
    dtype: The type of the elements. Two "e2m1x2" elements share a byte.
    shape: The shape in stored elements.
    layout: "linear" or "swizzled".
    nbytes: The size in bytes.
  """

  kind: str
  dtype: str
  shape: tuple[int, ...]
  layout: str
  nbytes: int

  @staticmethod
  def of(ref: pb.TensorRef) -> "PartPlan":
    """Converts the description of a part in a reply."""
    return PartPlan(
      KINDS.word(ref.kind),
      DTYPES.word(ref.dtype),
      tuple(ref.shape),
      LAYOUTS.word(ref.layout),
      ref.size,
    )


@dataclass(frozen=True)
class Plan:
  """The parts that `quantize` would return, and the sizes in bytes.

  Attributes:
    parts: The parts, by kind.
    input_bytes: Bytes to send.
    output_bytes: Bytes to receive.
    scratch_bytes: Further memory that the device needs.
  """

  parts: Mapping[str, PartPlan]
  input_bytes: int
  output_bytes: int
  scratch_bytes: int


@dataclass(frozen=True)
class Device:
  """A device of a server, its memory, and counters since its start."""

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
  """A server's support of a format. `options` has names as in WIRE.md."""

  name: str
  device_kinds: tuple[str, ...]
  inputs: tuple[str, ...]
  usages: tuple[str, ...]
  rht_dimensions: tuple[int, ...]
  options: tuple[str, ...]


@dataclass(frozen=True)
class ServerInfo:
  """The version, limits, devices and formats of a server.

  Attributes:
    version: The version of the server.
    max_request_bytes: Limit of a request, in bytes.
    memory_budget_bytes: Limit of memory for all payloads, in bytes.
    max_rank: Limit of a tensor's dimensions.
    amax_estimation_scale: The server's default for this option. 0 if it makes
      no estimates by default.
    devices: The devices that compute.
    formats: The supported formats, by name.
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
    """Converts a reply."""
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
