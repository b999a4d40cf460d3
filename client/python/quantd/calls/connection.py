"""A connection to servers, and the calls that it makes."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Unpack, overload

from quantd import options, words
from quantd import quantd_pb2 as pb
from quantd.calls import many, requests
from quantd.calls.asked import spec_of
from quantd.calls.call_options import (
  CallOptions,
  DecodeKeywords,
  QuantizeCall,
  split,
)
from quantd.calls.questions import Questions
from quantd.errors import Invalid
from quantd.options import refuse_unknown
from quantd.results import Maxima
from quantd.tensors import arrays
from quantd.tensors.elements import Like
from quantd.tensors.tensor import QuantizedTensor
from quantd.values import flag
from quantd.words import (
  DTYPES,
  FLOATS,
  KINDS,
  USAGES,
  AmaxDomain,
  DType,
  Format,
  NonFinite,
  Side,
  Sides,
)

A = TypeVar("A")


class Connection(Questions):
  """Calls on one or more servers; made by `quantd.connect`.

  Any number of threads may use a connection at once. Pickling keeps its
  settings: the unpickled connection connects with its own first call.

  Contiguous input arrays are not copied. They must not be changed while a call
  runs. Results of `quantize` are read-only, except for buffers in `out`.
  """

  def quantize(
    self,
    x: Any,
    format: Format = "nvfp4",
    *,
    flatten_axis: int = -1,
    dtype: DType | None = None,
    fused: Sequence[Any] = (),
    out: Mapping[str, Any] | None = None,
    like: Like = None,
    **keywords: Unpack[QuantizeCall],
  ) -> QuantizedTensor:
    """Quantizes a tensor, or groups of its rows.

    Args:
      x: f32, f16 or bf16, of 1 to 8 dimensions: an array of numpy, PyTorch,
        CuPy, JAX, or with `__dlpack__`. If `takes_device` is true, an array in
        GPU memory is quantized on that GPU, and so are the parts of the result.
      format: "nvfp4", "nvfp4_2d", "fp8_e4m3", "fp8_e5m2", "mxfp8_e4m3",
        "mxfp8_e5m2", "mxfp4", "fp8_block_e4m3", "fp8_block_e5m2",
        "fp8_block_2d_e4m3", "fp8_block_2d_e5m2" or "fp8_channel_e4m3".
      flatten_axis: x is treated as a matrix M x K. M is the product of the
        dimensions before this axis, K the product of the others.
      dtype: The type of x if numpy does not have it: "bf16" for uint16.
      fused: Arrays that share one amax with x, such as k and v if x is q of a
        layer, in host memory. They are stacked below x for the call. The
        result's `fused` has their quantized tensors.
      out: Contiguous buffers of the exact size for parts, by kind:
        {"rowwise_data": ...}. The result views them. They may overlap an input,
        which is read first, but not each other.
      like: The library of the result's arrays and of decoding: "numpy",
        "torch", "jax" or an array of one. None uses the library of x.
      **keywords: Options, as `quantd.options.QuantizeKeywords` lists them, and
        the options of every call in `CallOptions`: `timeout`, `cancel`,
        `progress`, `traceparent`, `priority`.

    Returns:
      The quantized tensor.

    Raises:
      quantd.Invalid: An argument is invalid.
      quantd.Error: The call failed.

    Example:
      >>> t = q.quantize(np.ones((128, 64), np.float32), "nvfp4", usage="both")
      >>> t.rowwise.codes.shape, t.columnwise.codes.shape
      ((128, 32), (64, 64))
    """
    call, options = split("quantize", keywords)
    sources = requests.read_all(x, fused, dtype, self.takes_device)
    asked = requests.asked(sources, flatten_axis, format, options)
    into = requests.buffers(out, asked, self.takes_device)
    if (near := sources[0].device) is not None:
      into = requests.places(near, into, asked.sizes())
    data = [s.payload for s in sources]
    reply = self._call("Quantize", asked.header, data, into, call)
    answer = asked.read(reply.header)
    parts = {
      spec.kind: requests.part_of(spec, data)
      for spec, data in zip(answer.specs, reply.parts, strict=True)
    }
    made = QuantizedTensor(
      asked.tensor,
      asked.options,
      parts,
      report=answer.report,
      request_id=reply.request_id or answer.request_id,
      connection=self,
      library=sources[0].library,
      transport=reply.transport,
      bands=reply.bands,
      streamed=reply.streamed,
    )
    if like is not None:
      made = made.like(like)
    if len(sources) == 1:
      return made
    return requests.cut_apart(made, sources, flatten_axis)

  def quantize_all(
    self,
    tensors: Mapping[str, Any],
    format: Format = "nvfp4",
    *,
    only: Sequence[str] = (),
    ignore: Sequence[str] = (),
    at_once: int = 4,
    flatten_axis: int = -1,
    dtype: DType | None = None,
    like: Like = None,
    **keywords: Unpack[QuantizeCall],
  ) -> dict[str, QuantizedTensor]:
    """Quantizes the weights of a state dict, several at once.

    Tensors with fewer than two dimensions, such as biases and norms, are left
    out of the result. So are integers and masks of any shape.

    Args:
      tensors: Tensors by name, as in a state dict.
      format: As for `quantize`.
      only: Patterns of the modules to quantize, as for `quantctl convert
        --only`. A pattern is a name with * and ?, or "re:" and a regular
        expression that matches from the start. ".weight" may be left out.
      ignore: Patterns of modules that are left out of the result.
      at_once: Calls in flight at a time.
      flatten_axis: As for `quantize`.
      dtype: As for `quantize`.
      like: As for `quantize`.
      **keywords: As for `quantize`; `progress` covers all tensors together,
        and `cancel` stops all calls.

    Returns:
      The quantized tensors, by the same names.

    Raises:
      quantd.Error: The first call that failed, naming its tensor. The other
        calls are cancelled.

    Example:
      >>> w = np.ones((4, 32), np.float32)
      >>> state = {"up.weight": w, "up.bias": w[0], "head.weight": w}
      >>> list(q.quantize_all(state, "mxfp4", ignore=["head"]))
      ['up.weight']
    """
    refuse_unknown("quantize_all", keywords, QuantizeCall)
    progress = keywords.pop("progress", False)
    cancel = keywords.pop("cancel", None)
    one = functools.partial(
      self.quantize,
      format=format,
      flatten_axis=flatten_axis,
      dtype=dtype,
      like=like,
      **keywords,
    )
    named = many.chosen(tensors, only, ignore, dtype)
    return many.quantize_all(one, named, at_once, progress, dtype, cancel)

  @overload
  def dequantize(
    self,
    t: QuantizedTensor,
    dtype: DType | None = None,
    *,
    out: A,
    **keywords: Unpack[DecodeKeywords],
  ) -> A: ...

  @overload
  def dequantize(
    self,
    t: QuantizedTensor,
    dtype: DType | None = None,
    *,
    like: Like = None,
    **keywords: Unpack[DecodeKeywords],
  ) -> Any: ...

  def dequantize(
    self,
    t: QuantizedTensor,
    dtype: DType | None = None,
    *,
    usage: Side | None = None,
    rotated: bool = False,
    out: Any = None,
    like: Like = None,
    **call: Unpack[CallOptions],
  ) -> Any:
    """Decodes a copy of a quantized tensor, undoing its rotation.

    Args:
      t: The tensor.
      dtype: "f32", "f16", "bf16", or for example torch.bfloat16. None uses the
        type of the tensor.
      usage: "rowwise" or "columnwise". None uses the first one that exists.
      rotated: Return a rotated copy without undoing the rotation. The result
        then includes the copy's padding to whole blocks and rotations.
      out: A contiguous array of M x K elements to write to, and to return.
      like: "numpy", "torch", "jax", or an array of the desired library. None
        uses the library of the input that was quantized.
      **call: Options of every call, as for `quantize`.

    Returns:
      The values in the shape of the tensor; M x K if rotated, or if groups end
      before the tensor's last row. bf16 in numpy is ml_dtypes' bfloat16
      if that is installed, and otherwise uint16 with the bits of bf16.

    Raises:
      quantd.Error: The call failed.

    Example:
      >>> t = q.quantize(np.ones((4, 32), np.float32), "mxfp8_e4m3")
      >>> float(t.dequantize("f32").sum())
      128.0
    """
    if not isinstance(t, QuantizedTensor):
      raise Invalid.of("t", "a quantd.QuantizedTensor", type(t).__name__)
    side = usage or ("rowwise" if t.rowwise is not None else "columnwise")
    USAGES.parse("usage", side, ("rowwise", "columnwise"))
    if f"{side}_data" not in t.parts:
      raise Invalid.of("usage", f"a copy that exists: {t.usage}", side)
    output = DTYPES.parse("dtype", dtype or t.dtype, FLOATS)
    request, data, shape = requests.decoding(
      t, side, output, flag("rotated", rotated)
    )
    kind, word = pb.TENSOR_KIND_DEQUANTIZED, DTYPES.word(output)
    made = (kind, word, shape)
    return self._values(
      "Dequantize", request, data, made, out, like, t.library, call
    )

  def amax(
    self,
    x: Any,
    *,
    rht: bool | Sides = False,
    domain: AmaxDomain = "tensor",
    rht_dimension: int = 16,
    sign_mask: int | str | bytes | None = None,
    non_finite: NonFinite = "ignore",
    splits: Sequence[int] | None = None,
    partial_splits: bool = False,
    flatten_axis: int = -1,
    dtype: DType | None = None,
    fused: Sequence[Any] = (),
    like: Like = None,
    **call: Unpack[CallOptions],
  ) -> Maxima:
    """Finds the largest magnitudes of a tensor, plain and after rotation.

    Args:
      x: As for `quantize`.
      rht: Also return maxima after rotation: "rowwise", "columnwise", or True
        for both. The rowwise rotation's blocks are along K, the columnwise
        one's along M. That length must be a multiple of the dimension.
      domain: "tensor", or "row" for maxima of each row and of each column.
      rht_dimension: 16, 32, 64 or 128.
      sign_mask: As for `quantize`.
      non_finite: "ignore", "propagate" or "reject".
      splits: Rows of each group. Each group has its own maxima.
      partial_splits: The groups may end before the last row.
      flatten_axis: As for `quantize`.
      dtype: As for `quantize`.
      fused: Arrays below x, as for `quantize`. The maxima cover all of them.
      like: The library of the maxima. None uses the library of x.
      **call: Options of every call, as for `quantize`.

    Returns:
      fp32 arrays of one number, or of one for each group, row or column.

    Example:
      >>> float(q.amax(np.array([[1, -3]] * 8, np.float32)).rowwise[0])
      3.0
    """
    sources = requests.read_all(x, fused, dtype, self.takes_device)
    turned = (True, True) if rht is True else options.copies("rht", rht or None)
    o = pb.RhtAmaxOptions(
      rowwise=True,
      columnwise=True,
      rowwise_rht=turned[0],
      columnwise_rht=turned[1],
      non_finite=words.NON_FINITES.parse("non_finite", non_finite),
      domain=words.AMAX_DOMAINS.parse("domain", domain),
      rht=options.rht_message(False, False, rht_dimension, sign_mask)
      if any(turned)
      else None,
      splits=options.splits_message(splits, partial_splits),
    )
    request = pb.RhtAmaxRequest(
      tensor=requests.stacked(sources, flatten_axis), options=o
    )
    header = request.SerializeToString()
    data = [s.payload for s in sources]
    reply = self._call("RhtAmax", header, data, {}, call)
    answer = pb.RhtAmaxReply.FromString(reply.header)
    source = "numpy" if sources[0].device else sources[0].library
    library = arrays.library_for(like, source)
    found = {
      KINDS.word(ref.kind): requests.part_of(spec_of(ref), part).array(library)
      for ref, part in zip(answer.tensors, reply.parts, strict=True)
    }
    return Maxima(
      rowwise=found["rowwise_amax"],
      columnwise=found["columnwise_amax"],
      rowwise_rht=found.get("rowwise_rht_amax"),
      columnwise_rht=found.get("columnwise_rht_amax"),
      saw_nan=answer.report.saw_nan,
      saw_inf=answer.report.saw_inf,
    )

  def apply_rht(
    self,
    x: Any,
    *,
    inverse: bool = False,
    output: DType | None = None,
    rht_dimension: int = 16,
    sign_mask: int | str | bytes | None = None,
    flatten_axis: int = -1,
    dtype: DType | None = None,
    out: Any = None,
    like: Like = None,
    **call: Unpack[CallOptions],
  ) -> Any:
    """Rotates the rows of a tensor, as `quantd.hadamard` does without a server.

    Args:
      x: As for `quantize`. K must be a multiple of the dimension.
      inverse: Undo the rotation.
      output: "f32", "f16" or "bf16". None uses the type of x.
      rht_dimension: 16, 32, 64 or 128.
      sign_mask: As for `quantize`.
      flatten_axis: As for `quantize`.
      dtype: As for `quantize`.
      out: A contiguous array to write to, and to return. It may be x itself.
      like: As for `dequantize`.
      **call: Options of every call, as for `quantize`.

    Returns:
      The rotated values in the shape of x.

    Example:
      >>> x = np.ones((2, 16), np.float32)
      >>> bool((q.apply_rht(q.apply_rht(x), inverse=True) == x).all())
      True
    """
    source = arrays.read(x, "tensor", dtype, self.takes_device)
    word = DTYPES.float_word("output", output or source.dtype)
    request = pb.ApplyRhtRequest(
      tensor=requests.tensor_of(source, flatten_axis),
      options=pb.ApplyRhtOptions(
        inverse=flag("inverse", inverse),
        output=DTYPES.parse("output", word),
        rht=options.rht_message(False, False, rht_dimension, sign_mask),
      ),
    )
    kind, data = pb.TENSOR_KIND_ROTATED, [source.payload]
    made = (kind, word, source.shape)
    return self._values(
      "ApplyRht", request, data, made, out, like, source.library, call
    )
