"""A quantized tensor as a value: codes, scales and amax of its copies."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from quantd.errors import Invalid
from quantd.options import QuantizeKeywords
from quantd.tensors import assembling, dialects, file, views
from quantd.tensors.arrays import library_for
from quantd.tensors.described import Decoder, Described
from quantd.tensors.elements import Array, Like
from quantd.words import DType, Format, Side

__all__ = ["QuantizedTensor", "load"]

A = TypeVar("A")


class QuantizedTensor(Described):
  """Codes, scales and amaxes of a tensor, and everything needed for decoding.

  Made by `Connection.quantize`, `Quantizer`, `quantd.load` or `from_parts`.
  Immutable, including its messages, except for `connection`, which decodes it.
  May be read by many threads, and pickles.
  """

  # --- conversions
  # --------------------------------------------------------------

  @overload
  def dequantize(
    self, dtype: DType | None = None, *, out: A, **keywords: Any
  ) -> A: ...

  @overload
  def dequantize(
    self,
    dtype: DType | None = None,
    *,
    like: Literal["numpy"],
    **keywords: Any,
  ) -> Array: ...

  @overload
  def dequantize(
    self, dtype: DType | None = None, *, like: Like = None, **keywords: Any
  ) -> Any: ...

  def dequantize(
    self,
    dtype: DType | None = None,
    *,
    usage: Side | None = None,
    rotated: bool = False,
    out: Any = None,
    like: Like = None,
    connection: Decoder | None = None,
    **call: Any,
  ) -> Any:
    """Decodes a copy; see `Connection.dequantize`.

    Args:
      dtype: "f32", "f16", "bf16", or torch.bfloat16 and the like; None: that of
        the tensor.
      usage: The copy to decode; None: the rowwise one where there is one.
      rotated: Leave a rotated copy as it is.
      out: An array to write to.
      like: "numpy", "torch", "jax" or an array; None: `library`.
      connection: By whom; None: the one that made it.
      **call: What else it takes: timeout, cancel, progress, traceparent,
        priority.

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
      **call,
    )

  def rows(self, start: int, stop: int) -> Self:
    """Rows [start, stop) as a tensor of their own, with the whole's amaxes.

    Its copies decode to what the whole's decode to there. Shares the codes
    where rows lie together. Cuts lie between blocks: of a columnwise copy at
    multiples of its block and rotation, of square blocks at multiples of
    these, or at the end.

    Raises:
      Invalid: The cut is inside a block, or the tensor is in groups.
    """
    return views.cut_rows(self, start, stop)

  def group(self, i: int) -> Self:
    """Group `i` as a tensor of its own, rows x K, which shares the bytes.

    Raises:
      IndexError: There is no such group.
      Invalid: It is no whole number.
    """
    return views.group(self, i)

  def reshape(self, *shape: int) -> Self:
    """These codes under another shape, sharing the bytes.

    The dimensions from the flatten axis on stay; those before it may change as
    long as their product does not. One of these may be -1.

    Raises:
      Invalid: Another shape.
    """
    return views.reshape(self, shape)

  # TransformerEngine and PyTorch call it view.
  view = reshape

  def save(self, path: Any, name: str = "tensor") -> None:
    """Writes a safetensors file of it; see `quantd.save`."""
    file.save({name: self}, path)

  def to_modelopt(
    self, name: str, input_amax: float | None = None, *, like: Like = None
  ) -> dict[str, Any]:
    """The tensors that ModelOpt stores of a linear layer.

    Of a weight [N, K] in NVFP4, FP8 with one scale, or MXFP8; rowwise, not
    rotated, not in groups. The bytes are those of the profile that quantized it:
    profile="modelopt@0.47" gives ModelOpt's own; that of "te" goes, too.

    Args:
      name: Of the module: "model.layers.0.self_attn.q_proj".
      input_amax: The largest magnitude of the layer's inputs; FP8 needs it,
        NVFP4 without it is weight-only.
      like: The library of the result; None: `library`.

    Returns:
      Arrays by their names: of NVFP4 "<name>.weight" uint8 [N, K/2],
      ".weight_scale" E4M3 [N, K/16], ".weight_scale_2" fp32 [].

    Raises:
      quantd.Invalid: ModelOpt has no such weight.
    """
    return dialects.store("modelopt", self, name, input_amax, like)

  def to_compressed_tensors(
    self, name: str, input_amax: float | None = None, *, like: Like = None
  ) -> dict[str, Any]:
    """The tensors that compressed-tensors stores of a linear layer.

    As for `to_modelopt`; also of FP8 by channel or by 128 x 128, and of MXFP4,
    by profile="compressed-tensors@0.20". Of NVFP4 "<name>.weight_packed" uint8
    [N, K/2], ".weight_scale" E4M3 [N, K/16], ".weight_global_scale" fp32 [1].
    """
    return dialects.store("compressed-tensors", self, name, input_amax, like)

  def __reduce__(self) -> tuple[Any, ...]:
    """Pickles with its bytes and its connection, which connects again."""
    here = self.cpu()
    parts = {k: (p.spec, p.data.tobytes()) for k, p in here.parts.items()}
    state = (
      self.message().SerializeToString(),
      self.options.SerializeToString(),
      self.report.SerializeToString(),
    )
    rest = (self.request_id, self.connection, here.library, self.fused)
    return (assembling.restore, (type(self), state, parts, rest))

  @classmethod
  def from_parts(
    cls,
    shape: Sequence[int],
    format: Format,
    parts: Mapping[str, Any],
    *,
    dtype: DType = "bf16",
    flatten_axis: int = -1,
    connection: Decoder | None = None,
    like: Like = None,
    **options: Unpack[QuantizeKeywords],
  ) -> Self:
    """A tensor of parts that were made elsewhere, as by another library.

    Args:
      shape: Of the tensor.
      format: "nvfp4" ...
      parts: Every part that `quantize` would give for these options, once, by
        the words of TensorKind; arrays or buffers, which are not copied.
      dtype: The tensor's nominal type.
      flatten_axis: As for `quantize`.
      connection: By whom to decode.
      like: Whose arrays it shows and decodes to; None: numpy's.
      **options: As for `quantize`.

    Returns:
      The tensor.

    Raises:
      Invalid: A part is missing, too many, of another size or shape, or holds
        an amax below 0.
    """
    tensor = assembling.tensor_from_elsewhere(shape, dtype, flatten_axis)
    made = assembling.from_parts(
      cls, tensor, format, parts, connection, options
    )
    return made.replaced(library=library_for(like))


def load(
  path: Any,
  name: str | None = None,
  connection: Decoder | None = None,
  *,
  like: Like = None,
) -> QuantizedTensor:
  """Reads a quantized tensor of a file that this or quantctl wrote.

  Args:
    path: Of a safetensors file.
    name: Which tensor; None: the only one.
    connection: By whom to decode it.
    like: Whose arrays it shows and decodes to; None: numpy's.

  Returns:
    The tensor, in memory that is read-only. It does not say whether an amax was
    given or computed; the values are in the copies either way.

  Raises:
    OSError: It cannot be read.
    KeyError: There is no tensor of that name.
    quantd.Invalid: It is malformed, or has several tensors and no name is
      given: the error lists theirs.
  """
  library = library_for(like)
  made = file.read(QuantizedTensor, path, name, connection)
  return made.replaced(library=library)
