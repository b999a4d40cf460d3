"""The class of quantized tensors, and `quantd.load`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from quantd.errors import Invalid
from quantd.options import QuantizeKeywords
from quantd.tensors import assembling, dialects, file, views
from quantd.tensors.arrays import library_for
from quantd.tensors.described import Decoder, Described
from quantd.tensors.elements import Array, Like
from quantd.words import DType, Format, Side

A = TypeVar("A")


class QuantizedTensor(Described):
  """Codes, scales and amaxes of a tensor, and everything needed for decoding.

  Made by `Connection.quantize`, `Quantizer`, `quantd.load` or `from_parts`.
  Immutable, including its messages, except for `connection`. Many threads may
  read it. It can be pickled.

  Attributes:
    shape: The shape of the original tensor.
    dtype: The type of the original tensor: "f32", "f16" or "bf16".
    flatten_axis: The axis before which the dimensions form M.
    parts: All parts by kind, such as "rowwise_data".
    request_id: The id of the call in the server's log.
    fused: The tensors that were quantized together with this one.
    library: The library of the arrays: "numpy", "torch", "cupy" or "jax".
    transport: The transport of the call, such as "tcp"; "" if there was none.
    bands: The number of bands of the call. 1 for a single call.
    streamed: Whether the call, or one of its bands, was sent in chunks.
    connection: The connection that decodes the tensor.
  """

  # --- conversions

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
      dtype: "f32", "f16", "bf16", or for example torch.bfloat16. None uses the
        type of the tensor.
      usage: The copy to decode. None uses the rowwise copy if there is one.
      rotated: Return a rotated copy without undoing the rotation.
      out: An array to write to.
      like: "numpy", "torch", "jax" or an array. None uses `library`.
      connection: The connection to use. None uses the tensor's `connection`.
      **call: Options of the call: timeout, cancel, progress, traceparent,
        priority.

    Returns:
      The values, in the shape of the tensor.
    """
    connection = connection or self.connection
    if connection is None:
      raise Invalid.of(
        "connection", "a connection, because the tensor has none", "none"
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
    """Returns rows [start, stop) as a tensor, with the same amaxes.

    The result decodes to the same values as those rows of this tensor. It
    shares the codes if they are contiguous. `start` and `stop` must be the
    number of rows or multiples of a unit: the larger of the block and the
    rotation if there is a columnwise copy, or else the side of square blocks.

    Raises:
      Invalid: A cut is inside a block, or the tensor has groups.
    """
    return views.cut_rows(self, start, stop)

  def group(self, i: int) -> Self:
    """Returns group `i` as a tensor rows x K, which shares the bytes.

    Raises:
      IndexError: The group does not exist.
      Invalid: `i` is not a whole number.
    """
    return views.group(self, i)

  def reshape(self, *shape: int) -> Self:
    """Returns this tensor with another shape, sharing the bytes.

    The dimensions from the flatten axis on must stay. Those before it may
    change if their product does not. One of them may be -1.

    Raises:
      Invalid: The shape is not possible.
    """
    return views.reshape(self, shape)

  # This method is named view in TransformerEngine and PyTorch.
  view = reshape

  def save(self, path: Any, name: str = "tensor") -> None:
    """Writes this tensor to a safetensors file; see `quantd.save`."""
    file.save({name: self}, path)

  def to_modelopt(
    self, name: str, input_amax: float | None = None, *, like: Like = None
  ) -> dict[str, Any]:
    """Returns the tensors that ModelOpt stores for a linear layer.

    The weight must be a matrix [N, K] in NVFP4, MXFP8 or FP8 with one scale,
    with a rowwise copy and without rotation and groups. The bytes are those of
    the profile that quantized it. ModelOpt's own bytes need
    profile="modelopt@0.47". Profile "te" works, too.

    Args:
      name: The name of the module, such as "model.layers.0.self_attn.q_proj".
      input_amax: The largest magnitude of the layer's inputs. FP8 needs it.
        NVFP4 without it is weight-only.
      like: The library of the result. None uses `library`.

    Returns:
      Arrays by name, for NVFP4: "<name>.weight" uint8 [N, K/2], ".weight_scale"
      E4M3 [N, K/16] and ".weight_scale_2" fp32 [].

    Raises:
      quantd.Invalid: ModelOpt does not have weights of this type.
    """
    return dialects.store("modelopt", self, name, input_amax, like)

  def to_compressed_tensors(
    self, name: str, input_amax: float | None = None, *, like: Like = None
  ) -> dict[str, Any]:
    """Returns the tensors that compressed-tensors stores for a linear layer.

    Like `to_modelopt`, but also for FP8 by channel or by 128 x 128 and for
    MXFP4, with profile="compressed-tensors@0.20". For NVFP4 it returns
    "<name>.weight_packed" uint8 [N, K/2], ".weight_scale" E4M3 [N, K/16] and
    ".weight_global_scale" fp32 [1].
    """
    return dialects.store("compressed-tensors", self, name, input_amax, like)

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
    """Makes a tensor from existing parts, for example of another library.

    Args:
      shape: The shape of the original tensor.
      format: The format, such as "nvfp4".
      parts: Every part that `quantize` would return for these options, by kind.
        Arrays or buffers, which are not copied.
      dtype: The type of the original tensor.
      flatten_axis: As for `quantize`.
      connection: The connection that decodes the tensor.
      like: The library of its arrays. None uses numpy.
      **options: As for `quantize`.

    Returns:
      The tensor.

    Raises:
      Invalid: A part is missing or not expected, has a wrong size or shape, or
        has a negative amax.
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
  """Reads a quantized tensor from a file that this package or quantctl wrote.

  Args:
    path: The path of a safetensors file.
    name: The name of the tensor. None reads the only one.
    connection: The connection that decodes the tensor.
    like: The library of its arrays. None uses numpy.

  Returns:
    The tensor, in read-only memory. Its options do not tell whether an amax was
    given or computed. The copies have the amaxes in both cases.

  Raises:
    OSError: The file cannot be read.
    KeyError: There is no tensor with this name.
    quantd.Invalid: The file is malformed, or `name` is needed because it has
      several tensors; the error lists them.
  """
  library = library_for(like)
  made = file.read(QuantizedTensor, path, name, connection)
  return made.replaced(library=library)
