"""Properties of a quantized tensor, without its bytes."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

from quantd import quantd_pb2 as pb
from quantd.tensors import geometry
from quantd.tensors.arrays import library_for
from quantd.tensors.copies import Copy, Part, Statistics
from quantd.tensors.elements import Like, size_of
from quantd.words import DTYPES, FORMATS, PROFILES, USAGES


def _size(count: int) -> str:
  amount, unit = float(count), "B"
  for unit in ("B", "KiB", "MiB", "GiB"):
    if amount < 1024 or unit == "GiB":
      break
    amount /= 1024
  return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


class Decoder(Protocol):
  """Decodes a tensor, as `quantd.Connection` does."""

  @property
  def dequantize(self) -> Callable[..., Any]:
    """A function with the arguments of `quantd.Connection.dequantize`."""


class Described:
  """Properties, options, report and parts; see `QuantizedTensor`."""

  shape: tuple[int, ...]
  dtype: str
  flatten_axis: int
  parts: Mapping[str, Part]
  request_id: str
  fused: tuple[Self, ...]
  library: str
  transport: str
  bands: int
  streamed: bool
  connection: Decoder | None
  _options: bytes
  _report: bytes

  def __init__(
    self,
    tensor: pb.Tensor,
    options: bytes,
    parts: Mapping[str, Part],
    *,
    report: bytes = b"",
    request_id: str = "",
    connection: Decoder | None = None,
    library: str = "numpy",
    transport: str = "",
    bands: int = 1,
    streamed: bool = False,
  ) -> None:
    """Only for the package itself. Users call `from_parts`.

    The serialized options and report are parsed on first use.
    """
    self.__dict__.update(
      shape=tuple(tensor.shape),
      dtype=DTYPES.word(tensor.dtype),
      flatten_axis=geometry.axis_of(tensor),
      _options=options,
      parts=parts,
      _report=report,
      request_id=request_id,
      fused=(),
      connection=connection,
      library=library,
      transport=transport,
      bands=bands,
      streamed=streamed,
    )

  def __setattr__(self, name: str, value: Any) -> None:
    """Sets `connection`. Refuses all other attributes."""
    if name != "connection":
      raise AttributeError(
        f"a quantized tensor is immutable: {name} is read-only"
      )
    super().__setattr__(name, value)

  @functools.cached_property
  def options(self) -> pb.QuantizeOptions:
    """The options that the tensor was made with, including a drawn seed."""
    return pb.QuantizeOptions.FromString(self._options)

  @functools.cached_property
  def report(self) -> pb.Report:
    """Whether the input had NaN or Inf, its statistics, and the device used."""
    return pb.Report.FromString(self._report)

  def like(self, like: Like) -> Self:
    """Returns this tensor with arrays of "numpy", "torch" or "jax".

    Args:
      like: The name of the library, or an array of it.
    """
    library = library_for(like)
    if library == self.library:
      return self
    return self.cpu().replaced(library=library)

  @property
  def device(self) -> str:
    """The device of the parts: "cpu", or a GPU such as "cuda:0"."""
    for part in self.parts.values():
      if part.device is not None:
        return part.device.place
    return "cpu"

  def cpu(self) -> Self:
    """Returns this tensor with its parts in host memory."""
    if self.device == "cpu":
      return self
    parts = {kind: part.host() for kind, part in self.parts.items()}
    library = "numpy" if self.library == "cupy" else self.library
    return self.replaced(parts=parts, library=library)

  def replaced(self, **attributes: Any) -> Self:
    """Copies this tensor with new attributes. Only for the package."""
    made = type(self).__new__(type(self))
    made.__dict__.update(self.__dict__, **attributes)
    return made

  def __getstate__(self) -> dict[str, Any]:
    """Pickles the bytes and the connection's settings."""
    parsed = ("options", "report")
    state = self.cpu().__dict__.items()
    return {name: value for name, value in state if name not in parsed}

  # --- parts ----------------------------------------------------------------

  @property
  def rowwise(self) -> Copy | None:
    """The rowwise copy, or None."""
    return self._copy("rowwise")

  @property
  def columnwise(self) -> Copy | None:
    """The columnwise copy, or None."""
    return self._copy("columnwise")

  def _copy(self, name: str) -> Copy | None:
    if f"{name}_data" not in self.parts:
      return None
    o = self.options
    turned = o.HasField("rht") and bool(getattr(o.rht, name))
    return Copy(name, turned, self.parts, self.library, self.report)

  def get(self, kind: str) -> Any:
    """Returns the elements of a part, or None if it does not exist."""
    part = self.parts.get(kind)
    return None if part is None else part.array(self.library)

  def part(self, kind: str) -> Any:
    """Returns the elements of a part, such as "rowwise_data" or "dbias".

    Raises:
      KeyError: The part does not exist.
    """
    return self.parts[kind].array(self.library)

  @property
  def amax(self) -> Any:
    """The largest magnitude in fp32, or None for formats without an amax.

    If `amax` was requested, it is the amax before any rotation. Otherwise it is
    the amax of the rowwise copy, or of the columnwise one if there is no other.
    """
    for kind in ("amax", "rowwise_amax", "columnwise_amax"):
      if kind in self.parts:
        return self.part(kind)
    return None

  @property
  def stats(self) -> Statistics | None:
    """The statistics of the rowwise copy, or else of the columnwise one."""
    for copy in (self.rowwise, self.columnwise):
      if copy is not None and copy.stats is not None:
        return copy.stats
    return None

  # --- properties -----------------------------------------------------------

  @property
  def format(self) -> str:
    """The name of the format, such as "nvfp4"."""
    return FORMATS.word(self.options.format)

  @property
  def profile(self) -> str:
    """The profile that made the bytes, such as "te" or "modelopt@0.47"."""
    return PROFILES.word(self.options.profile)

  @property
  def usage(self) -> str:
    """The copies that exist: "rowwise", "columnwise", "both" or "none"."""
    return USAGES.word(self.options.usage)

  @property
  def seed(self) -> int | None:
    """The seed of stochastic rounding. None after rounding to nearest."""
    if self.options.rounding != pb.ROUNDING_STOCHASTIC:
      return None
    return int(self.options.stochastic.seed)

  @property
  def matrix(self) -> tuple[int, int]:
    """The shape (M, K) as a matrix, split at the flatten axis."""
    return geometry.sides(self.shape, self.flatten_axis)

  @property
  def groups(self) -> int:
    """The number of groups. 0 for a tensor without groups."""
    return (
      len(self.options.splits.rows) if self.options.HasField("splits") else 0
    )

  @property
  def nbytes(self) -> int:
    """The size of all parts in bytes."""
    return sum(part.spec.size for part in self.parts.values())

  @property
  def original_nbytes(self) -> int:
    """The size of the original tensor in bytes."""
    return math.prod(self.shape) * size_of(self.dtype)

  def message(self) -> pb.Tensor:
    """Builds the description of the tensor for requests."""
    return pb.Tensor(
      dtype=DTYPES.parse("dtype", self.dtype),
      shape=self.shape,
      flatten_axis=self.flatten_axis,
    )

  def __repr__(self) -> str:
    """Shows format, shape, copies, size, and SQNR if it is known."""
    shape = " x ".join(str(d) for d in self.shape)
    facts = [self.format, f"{shape} {self.dtype}", self.usage]
    if self.profile != "te":
      facts.append(f"profile {self.profile}")
    if self.groups:
      facts.append(f"groups {self.groups}")
    copies = [c for c in (self.rowwise, self.columnwise) if c is not None]
    if turned := [c.name for c in copies if c.rotated]:
      facts.append(f"rotated {', '.join(turned)}")
    before = self.original_nbytes
    share = self.nbytes / before if before else 0.0
    facts.append(f"{_size(self.nbytes)} of {_size(before)} ({share:.0%})")
    for copy in copies:
      if copy.stats is not None:
        facts.append(f"SQNR {copy.name} {copy.stats.sqnr_db:.2f} dB")
    return f"QuantizedTensor({', '.join(facts)})"
