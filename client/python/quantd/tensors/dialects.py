"""Converts a quantized weight to the tensors that other libraries store.

The bytes are those of the profile that quantized the weight. For a library's
own bytes, use its profile (`profile="modelopt@0.47"` or
`"compressed-tensors@0.20"`). Profile "te" works with both dialects: its amax
becomes the dialect's global scale.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from quantd.errors import Invalid
from quantd.tensors import geometry, views
from quantd.tensors.arrays import library_for, shown_as
from quantd.tensors.described import Described
from quantd.tensors.elements import Like
from quantd.values import number, shown

_FLT_MAX = np.float32(3.4028234663852886e38)


@dataclass(frozen=True)
class _Row:
  """How a dialect stores the weights of a format."""

  codes: str  # the suffix of the name of the codes
  scale: str  # the shape of scales: "blocks", "scalar", "one" or "column"
  needs_input: bool = False  # whether a scale of activations is required


@dataclass(frozen=True)
class _Dialect:
  name: str
  rows: dict[str, _Row]
  globals: str  # the suffix of the name of NVFP4's global scale
  divisor: bool  # whether values are divided by the global scale
  shape: tuple[int, ...]  # of the global scale and of the activations' scale
  inputs: dict[str, str]  # the suffix of the activations' scale, by format


_MODELOPT = _Dialect(
  "modelopt",
  {
    "nvfp4": _Row("weight", "blocks"),
    "fp8_e4m3": _Row("weight", "scalar", needs_input=True),
    "mxfp8_e4m3": _Row("weight", "blocks"),
  },
  "weight_scale_2",
  False,
  (),
  {"nvfp4": "input_scale", "fp8_e4m3": "input_scale"},
)
_COMPRESSED_TENSORS = _Dialect(
  "compressed-tensors",
  {
    "nvfp4": _Row("weight_packed", "blocks"),
    "fp8_e4m3": _Row("weight", "one"),
    "fp8_channel_e4m3": _Row("weight", "column"),
    "fp8_block_2d_e4m3": _Row("weight", "blocks"),
    "mxfp8_e4m3": _Row("weight", "blocks"),
    "mxfp4": _Row("weight_packed", "blocks"),
  },
  "weight_global_scale",
  True,
  (1,),
  {"nvfp4": "input_global_scale", "fp8_e4m3": "input_scale"},
)
_DIALECTS = {d.name: d for d in (_MODELOPT, _COMPRESSED_TENSORS)}


def store(
  dialect: str, t: Described, name: str, input_amax: float | None, like: Like
) -> dict[str, Any]:
  """Returns the tensors by name; see `QuantizedTensor.to_modelopt`."""
  d = _DIALECTS[dialect]
  library = library_for(like, t.library)
  if not isinstance(name, str):
    raise Invalid.of("name", "the name of a module", shown(name))
  row = d.rows.get(t.format)
  if row is None:
    raise Invalid.of("format", f"{' or '.join(d.rows)} with {d.name}", t.format)
  copy = t.rowwise
  if copy is None or copy.rotated or t.groups or len(t.shape) != 2:
    raise Invalid.of(
      "tensor",
      "a matrix with a rowwise copy, without rotation and groups",
      repr(t),
    )
  if t.profile.startswith("comfy"):
    raise Invalid.of("profile", f"a profile whose codes {d.name} reads", t.profile)
  codes = t.parts["rowwise_data"]
  out: dict[str, Any] = {
    f"{name}.{row.codes}": codes.array(library),
    f"{name}.weight_scale": _scales(t, row, library),
  }
  if t.format == "nvfp4":
    out[f"{name}.{d.globals}"] = _number(d, _global(d, t), library)
  if input_amax is not None:
    if t.format not in d.inputs:
      raise Invalid.of("input_amax", f"none with {t.format}", shown(input_amax))
    scale = _input_scale(d, t, input_amax)
    out[f"{name}.{d.inputs[t.format]}"] = _number(d, scale, library)
  elif row.needs_input:
    raise Invalid.of(
      "input_amax",
      f"the amax of the layer's inputs, which {t.format} needs",
      "none",
    )
  return out


def _scales(t: Described, row: _Row, library: str) -> Any:
  """Returns linear, unpadded scales in the type that checkpoints have."""
  part = t.parts["rowwise_scale"]
  if row.scale != "blocks":
    shape = {"scalar": (), "one": (1,), "column": (-1, 1)}[row.scale]
    return part.array(library).reshape(shape)
  n, k = t.matrix
  f = geometry.format_of(t.options, t.dtype)
  c = geometry.copy_shape(f, t.options, False, n, k)
  word = part.spec.dtype
  lines = -(-n // f.block) if f.square else n
  plain = np.ascontiguousarray(views.scale_matrix(c, part.data, word, lines))
  # Checkpoints store MX's exponents as uint8, like codes of e2m1x2.
  word = "e2m1x2" if word == "e8m0" else word
  return shown_as(library, plain.reshape(-1).view("u1"), word, plain.shape)


def _number(d: _Dialect, value: Any, library: str) -> Any:
  data = np.array([value], np.float32).view(np.uint8)
  return shown_as(library, data, "f32", d.shape)


def _scale_for(amax: np.float32, largest: float) -> np.float32:
  if amax == 0:
    return np.float32(1)
  with np.errstate(over="ignore", divide="ignore"):
    return min(np.float32(largest) / np.float32(amax), _FLT_MAX)


def _global(d: _Dialect, t: Described) -> Any:
  kind = geometry.global_kind(t.options)
  if kind is None:
    amax = t.parts["rowwise_amax"].array().reshape(-1)[0]
    if t.options.form.row_scaled:
      raise Invalid.of("row_scaled", f"one amax with {d.name}", "an amax per row")
    # With scale_256 (4over6), block scales reach 256: 256 * 6.
    scale = _scale_for(amax, 1536.0 if t.options.form.scale_256 else 2688.0)
    return scale if d.divisor else np.float32(1) / scale
  if kind.endswith("divisor") != d.divisor:
    raise Invalid.of("profile", f"te or a profile that {d.name} reads", t.profile)
  return t.parts[kind].array().reshape(-1)[0]


def _input_scale(d: _Dialect, t: Described, amax: float) -> Any:
  largest = number("input_amax", amax)
  if not 0 <= largest < np.inf:
    raise Invalid.of("input_amax", "a finite number >= 0", shown(amax))
  if t.format != "nvfp4":
    return np.float32(largest) / np.float32(448)
  if d.divisor:
    return _scale_for(np.float32(largest), 2688.0)
  return np.float32(largest) / np.float32(2688)
