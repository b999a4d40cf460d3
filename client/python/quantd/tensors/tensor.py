"""A quantized tensor as a value: codes, scales and amax of its copies."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quantd.errors import Invalid
from quantd.tensors.arrays import Array
from quantd.tensors.copies import Copy, Statistics
from quantd.tensors.described import Described

if TYPE_CHECKING:
  from quantd.calls.connection import Connection
  from quantd.calls.progress import Wanted
  from quantd.engines.engine import Cancellation

__all__ = ["QuantizedTensor"]


class QuantizedTensor(Described):
  """Codes, scales and amaxes of a tensor, and all that decoding needs.

  Made by `Connection.quantize`, `Quantizer`, `quantd.load` or `from_parts`.
  A value: what it is cannot be set, and its messages are not to be changed. Only
  `connection`, by whom it is decoded, may be. May be read by many threads, and
  pickles.
  """

  # --- its parts ------------------------------------------------------------

  @property
  def rowwise(self) -> Copy | None:
    """The rowwise copy, or None."""
    return Copy(self, "rowwise") if "rowwise_data" in self.parts else None

  @property
  def columnwise(self) -> Copy | None:
    """The columnwise copy, or None."""
    return Copy(self, "columnwise") if "columnwise_data" in self.parts else None

  def get(self, kind: str) -> Array | None:
    """The elements of a part, or None where there is no such part."""
    part = self.parts.get(kind)
    return None if part is None else part.array()

  def part(self, kind: str) -> Array:
    """The elements of a part: "rowwise_data", "dbias", "next_scale" ...

    Raises:
      KeyError: There is no such part.
    """
    made: Array = self.parts[kind].array()
    return made

  @property
  def amax(self) -> Array | None:
    """The largest magnitude, fp32, or None for formats without.

    That before any rotation where `amax` asked for it, or else what the
    rowwise, or else the columnwise, codes were made with.
    """
    for kind in ("amax", "rowwise_amax", "columnwise_amax"):
      if kind in self.parts:
        return self.part(kind)
    return None

  @property
  def stats(self) -> Statistics | None:
    """Those of the rowwise, or else of the columnwise copy."""
    for copy in (self.rowwise, self.columnwise):
      if copy is not None and copy.stats is not None:
        return copy.stats
    return None

  # --- what can be made of it -----------------------------------------------

  def dequantize(
    self,
    dtype: str | None = None,
    *,
    usage: str | None = None,
    rotated: bool = False,
    out: Any = None,
    like: Any = None,
    connection: "Connection | None" = None,
    timeout: float | None = None,
    cancel: "Cancellation | None" = None,
    progress: "Wanted" = False,
    traceparent: str | None = None,
    priority: str = "normal",
  ) -> Any:
    """Decodes a copy; see `Connection.dequantize`.

    Args:
      dtype: "f32", "f16" or "bf16"; None: that of the tensor.
      usage: The copy to decode; None: the rowwise one where there is one.
      rotated: Leave a rotated copy as it is.
      out: An array to write to.
      like: "numpy", "torch", "jax" or an array; None: numpy.
      connection: By whom; None: the one that made it.
      timeout: Seconds.
      cancel: Stops the call.
      progress: A bar, or a function to be told; see `Connection.quantize`.
      traceparent: The call's trace; see `Connection.quantize`.
      priority: "high", "normal" or "low".

    Returns:
      The values, in the shape of the tensor.
    """
    connection = connection or self.connection
    if connection is None:
      raise Invalid.of(
        "connection", "one to decode with, for this was loaded or built", "none"
      )
    return connection.dequantize(
      self,
      dtype,
      usage=usage,
      rotated=rotated,
      out=out,
      like=like,
      timeout=timeout,
      cancel=cancel,
      progress=progress,
      traceparent=traceparent,
      priority=priority,
    )

  def rows(self, start: int, stop: int) -> "QuantizedTensor":
    """Rows [start, stop) as a tensor of their own, with the whole's amaxes.

    Its copies decode to what the whole's decode to there. Shares the codes
    where rows lie together. Cuts lie between blocks: of a columnwise copy at
    multiples of its block and rotation, of square blocks at multiples of
    these, or at the end.

    Raises:
      Invalid: The cut is inside a block, or the tensor is in groups.
    """
    from quantd.tensors import views

    return views.cut_rows(self, start, stop)

  def group(self, i: int) -> "QuantizedTensor":
    """Group `i` as a tensor of its own, rows x K, which shares the bytes.

    Raises:
      IndexError: There is no such group.
      Invalid: It is no whole number.
    """
    from quantd.tensors import views

    return views.group(self, i)

  def reshape(self, *shape: int) -> "QuantizedTensor":
    """The same codes under another shape, sharing the bytes.

    The dimensions from the flatten axis on stay; those before it may change as
    long as their product does not. One of these may be -1.

    Raises:
      Invalid: Another shape.
    """
    from quantd.tensors import views

    return views.reshape(self, shape)

  # TransformerEngine's and PyTorch's other word for it.
  view = reshape

  def with_scale_layout(self, layout: str) -> "QuantizedTensor":
    """The same codes with "linear" or "swizzled" scales."""
    from quantd.tensors import views

    return views.with_scale_layout(self, layout)

  def save(self, path: Any, name: str = "tensor") -> None:
    """Writes a safetensors file of it; see `quantd.save`."""
    from quantd.tensors import file

    file.save(path, {name: self})

  def to_modelopt(
    self, name: str, input_amax: float | None = None
  ) -> dict[str, Any]:
    """The tensors that ModelOpt stores of a weight; see `quantd.tensors.dialects`."""
    from quantd.tensors import dialects

    return dialects.to_modelopt(self, name, input_amax)

  def to_compressed_tensors(
    self, name: str, input_amax: float | None = None
  ) -> dict[str, Any]:
    """The tensors that compressed-tensors stores; see `quantd.tensors.dialects`."""
    from quantd.tensors import dialects

    return dialects.to_compressed_tensors(self, name, input_amax)

  def plot(self, original: Any = None) -> Any:
    """Histograms of codes and scales, and the error by block.

    Args:
      original: What was quantized; without it there is no error to show.

    Returns:
      A matplotlib Figure, which notebooks show.

    Raises:
      ImportError: matplotlib is not installed.
    """
    from quantd.tensors import notebook

    return notebook.plot(self, original)

  def __repr__(self) -> str:
    """Format, shape, bytes and SQNR."""
    from quantd.tensors import notebook

    return notebook.text(self)

  def _repr_html_(self) -> str:
    from quantd.tensors import notebook

    return notebook.html(self)

  def __reduce__(self) -> tuple[Any, ...]:
    """Pickles with its bytes and its connection, which connects again."""
    parts = {
      k: (p.spec, p.host().data.tobytes()) for k, p in self.parts.items()
    }
    state = (
      self.message().SerializeToString(),
      self.options.SerializeToString(),
      self.report.SerializeToString(),
    )
    rest = (self.request_id, self.connection, self.library, self.fused)
    from quantd.tensors import assembling

    return (assembling.restore, (state, parts, rest))

  @classmethod
  def from_parts(
    cls,
    shape: Sequence[int],
    format: str,
    parts: Mapping[str, Any],
    *,
    dtype: str = "bf16",
    flatten_axis: int = -1,
    connection: "Connection | None" = None,
    **options: Any,
  ) -> "QuantizedTensor":
    """A tensor of parts that were made elsewhere, as by another library.

    Args:
      shape: Of the tensor.
      format: "nvfp4" ...
      parts: Every part that `quantize` would give for these options, once, by
        the words of TensorKind; arrays or buffers, which are not copied.
      dtype: The tensor's nominal type.
      flatten_axis: As for `quantize`.
      connection: By whom to decode.
      **options: As for `quantize`.

    Returns:
      The tensor.

    Raises:
      Invalid: A part is missing, too many, of another size or shape, or holds
        an amax below 0.
    """
    from quantd.tensors import assembling

    tensor = assembling.tensor_from_elsewhere(shape, dtype, flatten_axis)
    return assembling.from_parts(
      cls, tensor, format, parts, connection, options
    )
