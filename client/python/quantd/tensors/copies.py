"""The parts and the copies of a quantized tensor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quantd import quantd_pb2 as pb
from quantd.errors import Invalid
from quantd.tensors.arrays import shown_as
from quantd.tensors.device import DeviceBytes
from quantd.tensors.elements import Array, size_of
from quantd.tensors.geometry import Spec
from quantd.words import LAYOUTS


@dataclass(frozen=True)
class Statistics:
  """Error statistics of a copy. Elements that are NaN or Inf are not counted.

  Attributes:
    elements: Number of elements that are finite before and after.
    clipped: Number of elements that exceed the largest code when rounded.
    flushed: Number of nonzero elements that decode to zero.
    max_error: The largest error.
    signal: Sum of squares of the elements.
    noise: Sum of squares of the errors.
    sqnr_db: 10 log10(signal / noise), in dB.
  """

  elements: int
  clipped: int
  flushed: int
  max_error: float
  signal: float
  noise: float
  sqnr_db: float

  @staticmethod
  def of(message: pb.ErrorStatistics) -> "Statistics":
    """Converts the statistics of a report."""
    names = Statistics.__dataclass_fields__
    return Statistics(**{name: getattr(message, name) for name in names})


class Part:
  """One part of a tensor, with its description and bytes. Immutable."""

  __slots__ = ("_data", "device", "spec")

  def __init__(
    self, spec: Spec, data: Array, device: DeviceBytes | None = None
  ) -> None:
    """Uses `device` if it is given, and `data` otherwise."""
    self.spec = spec
    self.device = device
    self._data = data

  @property
  def data(self) -> Array:
    """The bytes in host memory.

    Raises:
      Invalid: The bytes are in GPU memory.
    """
    if self.device is not None:
      raise Invalid.of(
        "tensor",
        "a tensor in host memory: t.cpu()",
        f"a tensor on {self.device.place}",
      )
    return self._data

  @property
  def payload(self) -> Array | DeviceBytes:
    """The bytes, in host or GPU memory."""
    return self._data if self.device is None else self.device

  def array(self, library: str = "") -> Any:
    """Returns the elements in their shape, without a copy if aligned.

    Args:
      library: Library of the array. "" uses numpy, or the library of the GPU
        memory.
    """
    if self.device is not None:
      if library in ("", self.device.library):
        return self.device.view(self.spec.dtype, self.spec.shape)
      return self.host().array(library)
    data = self._data
    if data.__array_interface__["data"][0] % size_of(self.spec.dtype):
      data = data.copy()
    return shown_as(library, data, self.spec.dtype, self.spec.shape)

  def host(self) -> "Part":
    """Returns this part in host memory."""
    return self if self.device is None else Part(self.spec, self.device.host())

  def __repr__(self) -> str:
    """Shows the description."""
    return f"Part({self.spec!r})"


@dataclass(frozen=True, eq=False, repr=False)
class Copy:
  """The rowwise or the columnwise copy of a tensor, as read-only views.

  If the tensor has groups, those follow each other in it: see
  `QuantizedTensor.group`. BYTES.md has the shapes of every format.
  """

  name: str
  # Whether the copy was rotated before quantization.
  rotated: bool
  _parts: Mapping[str, Part]
  _library: str
  _report: pb.Report

  def _part(self, kind: str) -> Any:
    part = self._parts.get(f"{self.name}_{kind}")
    return None if part is None else part.array(self._library)

  @property
  def codes(self) -> Any:
    """The codes.

    E2M1: uint8 with two codes in a byte, the even one in the low half. The
    shape is [M, K/2] rowwise and [K, padded M / 2] columnwise. FP8: the type of
    PyTorch, JAX or ml_dtypes, or uint8 if that is not installed.
    """
    return self._part("data")

  @property
  def scales(self) -> Any:
    """The scales with padding, as E4M3, E8M0, fp32 or a profile's type.

    NVFP4 and MX: one for each block of a line, with lines padded to a multiple
    of 128 and blocks to a multiple of 4. E4M3 and E8M0 without a type in the
    array's library are bits in uint8. NVFP4's value is
    code * scale * amax / (448 * 6).
    """
    return self._part("scale")

  @property
  def amax(self) -> Any:
    """The amax that the codes were made with, in fp32.

    An array of one number, or of one for each group or line. None for MX and
    FP8 block scaling, which have no amax.
    """
    return self._part("amax")

  @property
  def global_scale(self) -> Any:
    """A profile's global scale: value = code * scale * global_scale."""
    return self._part("global_scale")

  @property
  def global_divisor(self) -> Any:
    """A profile's divisor: value = code * scale / global_divisor."""
    return self._part("global_divisor")

  @property
  def scale_layout(self) -> str:
    """Either "linear" or "swizzled"."""
    return LAYOUTS.word(self._parts[f"{self.name}_scale"].spec.layout)

  @property
  def stats(self) -> Statistics | None:
    """The error statistics, if `statistics` was requested."""
    if not self._report.HasField(self.name):
      return None
    return Statistics.of(getattr(self._report, self.name))

  def __repr__(self) -> str:
    """Shows the types and shapes."""
    codes, scales = self.codes, self.scales
    turned = ", rotated" if self.rotated else ""
    return (
      f"Copy({self.name}{turned}, codes {codes.dtype} {list(codes.shape)}, "
      f"scales {scales.dtype} {list(scales.shape)})"
    )
