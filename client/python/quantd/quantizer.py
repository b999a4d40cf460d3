"""A quantizer with TransformerEngine's vocabulary.

It is configured once and then quantizes many tensors.
"""

import contextlib
import copy
import secrets
from collections.abc import Sequence
from typing import Any, Unpack

from quantd import reduction, words
from quantd.calls.call_options import CallOptions
from quantd.calls.connection import Connection
from quantd.errors import Invalid
from quantd.options import QuantizeKeywords, quantize_message, refuse_unknown
from quantd.tensors import arrays, geometry
from quantd.tensors.tensor import QuantizedTensor
from quantd.values import flag, numbers, shown, whole
from quantd.words import Format, Sides, Usage

# Names of types in TransformerEngine and PyTorch.
_TE_FP8 = {
  "kFloat8E4M3": "e4m3",
  "kFloat8E5M2": "e5m2",
  "float8_e4m3fn": "e4m3",
  "float8_e5m2": "e5m2",
}

# Other options need these, and are checked together with them.
_BESIDE = QuantizeKeywords(
  rht="both", history=[0.0], stochastic=0, splits=[1], usage="both"
)

# Arguments of one call that are not options.
_ARGUMENTS = (
  "flatten_axis",
  "dtype",
  "fused",
  "out",
  "like",
  *CallOptions.__annotations__,
)

# Options that `Quantizer` replaces by TransformerEngine's arguments.
_INSTEAD = {
  "usage": "rowwise= and columnwise=",
  "rht": "with_rht=",
  "stochastic": "stochastic_rounding= and seed=",
  "splits": "quantize_groups(x, splits)",
  "given_amax": "amax_reduction=",
}


class Quantizer:
  """Quantizes tensors with options that are set once.

  Example:
    >>> quantizer = Quantizer(q, with_rht=True, stochastic_rounding=True, seed=7)
    >>> t = quantizer(np.ones((64, 64), np.float32))
    >>> t.columnwise.rotated, t.rowwise.rotated
    (True, False)
    >>> quantizer.set_usage(columnwise=False)
    >>> quantizer(np.ones((64, 64), np.float32)).usage
    'rowwise'
  """

  def __init__(
    self,
    connection: Connection,
    format: Format = "nvfp4",
    *,
    rowwise: bool = True,
    columnwise: bool = True,
    block_dims: tuple[int, int] | None = None,
    fp8_dtype: Any = None,
    with_rht: bool | str = False,
    with_random_sign_mask: bool = True,
    with_2d_quantization: bool = False,
    stochastic_rounding: bool = False,
    seed: int | None = None,
    with_amax_reduction: bool | None = None,
    amax_reduction: Any = None,
    **keywords: Unpack[QuantizeKeywords],
  ) -> None:
    """Sets the options of every call.

    Args:
      connection: The connection that quantizes.
      format: As for `Connection.quantize`.
      rowwise: Make the rowwise copy.
      columnwise: Make the columnwise copy.
      block_dims: Rows and columns that share a scale. None uses the blocks of
        the format. Other values select the format of the same family: (1, 16)
        or (16, 16) of NVFP4, (1, 128) or (128, 128) of FP8 block scaling,
        (1, 32) of MX.
      fp8_dtype: "e4m3" or "e5m2", or the type's name in PyTorch, JAX or
        TransformerEngine. It selects the format of the same family.
      with_rht: True rotates the columnwise copy, as TransformerEngine does. Or
        "rowwise", "columnwise" or "both".
      with_random_sign_mask: True uses TransformerEngine's fixed mask, 0xD7E8.
        False sets all signs of the rotation to +1.
      with_2d_quantization: True has the effect of square block_dims.
      stochastic_rounding: Round stochastically. Without `seed` every call draws
        a seed, which its tensor has as `seed`.
      seed: The seed of stochastic rounding, the same for every call.
      with_amax_reduction: Reduce amaxes over processes before quantizing. None
        reduces them only if `amax_reduction` is given, False never.
      amax_reduction: A function that maps this process' fp32 amaxes to the
        largest of all processes, or a group of torch.distributed. None is the
        default group. An amax of NaN or Inf in this process is kept, because
        such a value cannot be given. If only the reduced amax is NaN or Inf,
        `quantd.Invalid` is raised.
      **keywords: Other options of `quantize`.

    Raises:
      quantd.Invalid: A value is invalid, or the format's family has no such
        blocks or type.
      TypeError: There is no option with this name.
    """
    if not callable(getattr(connection, "quantize", None)):
      got = shown(connection)
      raise Invalid.of("connection", "one that quantd.connect made", got)
    self.connection = connection
    self.format = _with_blocks(
      _with_fp8(
        words.FORMATS.word(words.FORMATS.parse("format", format)), fp8_dtype
      ),
      block_dims,
      flag("with_2d_quantization", with_2d_quantization),
    )
    self.rowwise_usage = flag("rowwise", rowwise)
    self.columnwise_usage = flag("columnwise", columnwise)
    self.with_rht = None if with_rht is False else with_rht
    if with_rht is True:
      self.with_rht = "columnwise"
    _rotated(self.with_rht, (True, True))
    self.with_random_sign_mask = flag(
      "with_random_sign_mask", with_random_sign_mask
    )
    self.stochastic_rounding = flag("stochastic_rounding", stochastic_rounding)
    self.seed = None if seed is None else whole("seed", seed, 0, 2**64 - 1)
    self.with_amax_reduction = (
      amax_reduction is not None
      if with_amax_reduction is None
      else flag("with_amax_reduction", with_amax_reduction)
    )
    self.amax_reduction = reduction.checked(amax_reduction)
    for name, instead in _INSTEAD.items():
      if name in keywords:
        raise Invalid.of(name, f"{instead} instead", f"{name}=")
    refuse_unknown("Quantizer", keywords, QuantizeKeywords)
    quantize_message(self.format, {**_BESIDE, **keywords})
    self.keywords: QuantizeKeywords = keywords

  def set_usage(
    self, *, rowwise: bool | None = None, columnwise: bool | None = None
  ) -> None:
    """Sets which copies later calls make. None leaves a copy unchanged.

    Settings of an unused copy, such as its rotation, are kept for later calls
    that make it again.
    """
    if rowwise is not None:
      self.rowwise_usage = flag("rowwise", rowwise)
    if columnwise is not None:
      self.columnwise_usage = flag("columnwise", columnwise)

  def set_delayed_scaling(
    self, scale: float | Sequence[float], history: Sequence[float] | None = None
  ) -> None:
    """FP8: sets the scale for later calls, and the history to update.

    With a history, results have the parts "next_scale" and "amax_history" for
    the next call.
    """
    found = QuantizeKeywords(scale=numbers("scale", scale))
    if history is not None:
      found["history"] = numbers("history.amax", history)
    self.keywords.pop("history", None)
    self.keywords.update(found)

  def _options(self) -> QuantizeKeywords:
    options = QuantizeKeywords(**self.keywords)
    sides = (self.rowwise_usage, self.columnwise_usage)
    names: dict[tuple[bool, bool], Usage] = {
      (True, True): "both",
      (True, False): "rowwise",
      (False, True): "columnwise",
    }
    options["usage"] = names.get(sides, "none")
    beside = options.get("dbias") or options.get("amax")
    if options["usage"] == "none" and not beside:
      raise Invalid.of("usage", "rowwise, columnwise or both", "neither")
    rotated = _rotated(self.with_rht, sides)
    if rotated is not None:
      options["rht"] = rotated
      if not self.with_random_sign_mask:
        options["sign_mask"] = 0
    else:
      for name in ("rht_dimension", "sign_mask", "amax_estimation_scale"):
        options.pop(name, None)  # type: ignore[misc]
    if self.stochastic_rounding:
      options["stochastic"] = (
        secrets.randbits(64) if self.seed is None else self.seed
      )
    return options

  def quantize(self, x: Any, **call: Any) -> QuantizedTensor:
    """Quantizes a tensor.

    Args:
      x: As for `Connection.quantize`.
      **call: Other arguments of `Connection.quantize`: flatten_axis, dtype,
        fused, out, like, timeout, cancel, progress, traceparent, priority, and
        options that the quantizer does not set.

    Returns:
      The tensor.

    Raises:
      quantd.Invalid: `call` has an option that the quantizer sets.
    """
    return self._quantize(x, self._options(), call)

  __call__ = quantize

  def quantize_groups(
    self, x: Any, splits: Sequence[int], **call: Any
  ) -> QuantizedTensor:
    """Quantizes groups of rows, each as if it were alone.

    Args:
      x: As for `Connection.quantize`.
      splits: Rows of each group.
      **call: As for `quantize`.

    Returns:
      A tensor whose `group(i)` is a view of group i.
    """
    options = self._options()
    options["splits"] = splits
    return self._quantize(x, options, call)

  def _quantize(
    self, x: Any, options: QuantizeKeywords, call: dict[str, Any]
  ) -> QuantizedTensor:
    for name in call:
      if name in options or name in _INSTEAD or name == "format":
        expected = _INSTEAD.get(name, "the quantizer's own setting")
        raise Invalid.of(name, expected, f"{name}= in one call")
    arguments = {k: v for k, v in call.items() if k in _ARGUMENTS}
    options |= {k: v for k, v in call.items() if k not in _ARGUMENTS}  # type: ignore[typeddict-item]
    if self.with_amax_reduction and options.get("scale") is None:
      reduction.give_amaxes(
        x,
        self.connection,
        geometry.FORMATS_BY_NAME[self.format].scaling,
        options,
        {k: v for k, v in arguments.items() if k != "out"},
        self.amax_reduction,
      )
    format: Any = self.format
    return self.connection.quantize(x, format, **arguments, **options)

  def __repr__(self) -> str:
    """Shows the settings as constructor arguments."""
    said = {
      "rowwise": self.rowwise_usage,
      "columnwise": self.columnwise_usage,
      "with_rht": self.with_rht,
      "with_random_sign_mask": self.with_random_sign_mask,
      "stochastic_rounding": self.stochastic_rounding,
      "seed": self.seed,
      **self.keywords,
    }
    told = ", ".join(f"{name}={shown(value)}" for name, value in said.items())
    return f"Quantizer({self.connection!r}, {self.format!r}, {told})"

  def copy(self) -> "Quantizer":
    """Returns another quantizer with the same settings."""
    made = copy.copy(self)
    made.keywords = QuantizeKeywords(**self.keywords)
    return made

  def is_quantizable(self, x: Any) -> bool:
    """Returns whether x's rows are whole blocks, if a rowwise copy needs it."""
    block = geometry.FORMATS_BY_NAME[self.format].block
    cols = geometry.sides(arrays.read(x).shape, -1)[1]
    return not self.rowwise_usage or block in (0, 128) or cols % block == 0


def _rotated(rht: Any, sides: tuple[bool, bool]) -> Sides | None:
  """Returns the copies that are both made and rotated."""
  if rht is not None and not (
    isinstance(rht, str) and rht in ("rowwise", "columnwise", "both")
  ):
    expected = "True, False, rowwise, columnwise or both"
    raise Invalid.of("with_rht", expected, shown(rht))
  wanted = (rht in ("rowwise", "both"), rht in ("columnwise", "both"))
  rowwise, columnwise = (a and b for a, b in zip(wanted, sides, strict=True))
  if rowwise and columnwise:
    return "both"
  return "rowwise" if rowwise else "columnwise" if columnwise else None


def _with_fp8(format: str, dtype: Any) -> str:
  """Returns the format of the same family with this FP8 type."""
  if dtype is None:
    return format
  f = geometry.FORMATS_BY_NAME[format]
  word = _TE_FP8.get(dtype) if isinstance(dtype, str) else None
  if word is None:
    with contextlib.suppress(Invalid):
      word = words.DTYPES.word(words.DTYPES.parse("fp8_dtype", dtype))
  legal = [f.scale] if f.scaling == "nvfp4" else ["e4m3", "e5m2"]
  found = format if f.half else f"{format.rsplit('_', 1)[0]}_{word}"
  if word not in legal or found not in geometry.FORMATS_BY_NAME:
    expected = f"{' or '.join(legal)} with {format}"
    raise Invalid.of("fp8_dtype", expected, shown(dtype))
  return found


def _with_blocks(format: str, dims: Any, square: bool) -> str:
  """Returns the format of the same family with these blocks."""
  f = geometry.FORMATS_BY_NAME[format]
  if dims is None:
    if not square:
      return format
    dims = (f.block, f.block)
  legal = {
    (other.block if other.square else 1, other.block): name
    for name, other in geometry.FORMATS_BY_NAME.items()
    if (other.scaling, other.element) == (f.scaling, f.element) and other.block
  }
  if isinstance(dims, (tuple, list)) and tuple(dims) in legal:
    return legal[tuple(dims)]
  expected = f"{' or '.join(map(str, legal)) or 'none'} with {format}"
  raise Invalid.of("block_dims", expected, shown(dims))
