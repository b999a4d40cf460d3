"""How a tensor shows itself: text, HTML and plots."""

from collections.abc import Callable
from typing import Any

import numpy as np

from quantd.errors import Invalid
from quantd.tensors import arrays, geometry
from quantd.tensors.copies import table
from quantd.tensors.described import Described


def _size(count: int) -> str:
  amount, unit = float(count), "B"
  for unit in ("B", "KiB", "MiB", "GiB"):
    if amount < 1024 or unit == "GiB":
      break
    amount /= 1024
  return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def _facts(t: Described) -> dict[str, str]:
  shape = " x ".join(str(d) for d in t.shape)
  share = t.nbytes / t.original_nbytes if t.original_nbytes else 0.0
  facts = {"format": t.format, "shape": f"{shape} {t.dtype}", "copies": t.usage}
  if t.profile != "te":
    facts["profile"] = t.profile
  if t.groups:
    facts["groups"] = str(t.groups)
  rotated = [
    c.name for c in (t.rowwise, t.columnwise) if c is not None and c.rotated
  ]
  if rotated:
    facts["rotated"] = ", ".join(rotated)
  facts["size"] = (
    f"{_size(t.nbytes)} of {_size(t.original_nbytes)} ({share:.0%})"
  )
  for copy in (t.rowwise, t.columnwise):
    if copy is not None and copy.stats is not None:
      facts[f"SQNR {copy.name}"] = f"{copy.stats.sqnr_db:.2f} dB"
  return facts


def text(t: Described) -> str:
  """One line: format, shape, copies, bytes, SQNR where it is known."""
  facts = _facts(t)
  plain = [facts.pop("format"), facts.pop("shape"), facts.pop("copies")]
  more = [f"{name} {value}" for name, value in facts.items()]
  return f"QuantizedTensor({', '.join(plain + more)})"


def html(t: Described) -> str:
  """The same as a small table."""
  return table("QuantizedTensor", _facts(t))


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def code_counts(t: Described, name: str) -> tuple[Any, Any]:
  """The codes of a copy: their numbers, and how often each is there."""
  part = t.parts[f"{name}_data"]
  data = part.data
  if part.spec.dtype == "e2m1x2":
    data = np.concatenate([data & 15, data >> 4])
  counts = np.bincount(
    data, minlength=16 if part.spec.dtype == "e2m1x2" else 256
  )
  return np.arange(len(counts)), counts


def block_errors(
  t: Described, original: Any, decode: Callable[[str], Any]
) -> Any:
  """The root mean square error of each block of a row: [M, blocks].

  Args:
    t: A tensor.
    original: What was quantized.
    decode: Gives the values of the tensor in an element type.

  Returns:
    fp32; of formats without blocks those of 128 elements.
  """
  rows, cols = t.matrix
  source = arrays.read(original, "original")
  if source.shape != t.shape:
    expected, got = str(list(t.shape)), str(list(source.shape))
    raise Invalid.of("original.shape", expected, got)
  values = arrays.floats(source)
  error = (decode("f32") - values).reshape(rows, cols)
  block = geometry.format_of(t.options, t.dtype).block or 128
  padded = np.pad(error, ((0, 0), (0, -cols % block)))
  return np.sqrt(np.square(padded).reshape(rows, -1, block).mean(2))


def plot(t: Described, original: Any, decode: Callable[[str], Any]) -> Any:
  """Histograms of codes and scales of each copy, and the error by block.

  Args:
    t: The tensor.
    original: What was quantized; None: there is no error to show.
    decode: As for `block_errors`.

  Returns:
    A matplotlib Figure.

  Raises:
    ImportError: matplotlib is not installed.
  """
  try:
    from matplotlib.figure import Figure
  except ImportError:
    raise ImportError(
      "plot() draws by matplotlib: pip install matplotlib"
    ) from None

  names = [c.name for c in (t.rowwise, t.columnwise) if c is not None]
  lines = len(names) + (original is not None)
  figure = Figure(figsize=(9, 3.2 * max(1, lines)), layout="constrained")
  for at, name in enumerate(names):
    codes, counts = code_counts(t, name)
    left = figure.add_subplot(lines, 2, 2 * at + 1)
    left.bar(codes, counts, width=1.0)
    left.set_title(f"{name} codes")
    left.set_xlabel("code")
    right = figure.add_subplot(lines, 2, 2 * at + 2)
    scales = t.part(f"{name}_scale")
    if t.parts[f"{name}_scale"].spec.dtype == "f32":
      values = np.asarray(scales, np.float32).reshape(-1)
      positive = values[np.isfinite(values) & (values > 0)]
      right.hist(np.log2(positive) if positive.size else positive, bins=64)
      right.set_xlabel("log2 of the scale")
    else:
      raw = t.parts[f"{name}_scale"].data
      found = np.bincount(raw, minlength=256)
      right.bar(np.arange(256), found, width=1.0)
      right.set_xlabel("code of the scale")
    right.set_title(f"{name} scales")
  if original is not None:
    errors = figure.add_subplot(lines, 1, lines)
    shown = errors.imshow(block_errors(t, original, decode), aspect="auto")
    errors.set_title("error by block (root mean square)")
    errors.set_xlabel("block")
    errors.set_ylabel("row")
    figure.colorbar(shown, ax=errors)
  figure.suptitle(text(t), fontsize=8)
  return figure
