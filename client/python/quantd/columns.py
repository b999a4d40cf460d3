"""Quantizes a column of tensors into columns of parts, for data pipelines.

  dataset.map(quantd.Quantize("gpu-a:50151", column="x"), batched=True)
  ds.map_batches(
    quantd.Quantize, fn_constructor_args=("gpu-a:50151,gpu-b:50151",),
    fn_constructor_kwargs={"column": "x", "dtype": "bf16"}, concurrency=4)

Each record is one tensor and is quantized by itself. Its bytes do not depend on
how a pipeline cuts the data into batches, or on repeated batches.
"""

import concurrent.futures
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from quantd import options
from quantd import quantd_pb2 as pb
from quantd.calls.connecting import connect
from quantd.calls.connection import Connection
from quantd.errors import Error, Invalid
from quantd.options import QuantizeKeywords
from quantd.tensors import geometry
from quantd.tensors.elements import Array
from quantd.tensors.tensor import QuantizedTensor
from quantd.words import DTYPES, DType, Format

# Names of columns that differ from the kinds of their parts, by kind.
_NAMES = {
  "rowwise_data": "codes",
  "rowwise_scale": "scales",
  "rowwise_amax": "amax",
  "rowwise_global_scale": "global_scale",
  "rowwise_global_divisor": "global_divisor",
  "columnwise_data": "columnwise_codes",
  "columnwise_scale": "columnwise_scales",
  "amax": "tensor_amax",
}
# Default arguments of `connect`. A pipeline would rather wait for a server than
# fail.
_PATIENCE: Mapping[str, Any] = {"deadline": 300.0}


class Quantize:
  """A function that maps batches of tensors to batches of their parts.

  Takes and returns columns by name, as `datasets.Dataset.map` with batched=True
  and Ray Data's `map_batches` with batch_format="numpy" expect. Adds to each
  batch "codes" and "scales" as uint8 (fp32 scales as float32), "amax" as
  float32 if the format has one, and other requested parts such as
  "columnwise_codes", "tensor_amax" or "dbias". Other columns are passed
  through. In any batch, a record gets the bytes of `Connection.quantize`.

  Pickles its settings, and connects with its first batch. Many threads may use
  one object.

  Example:
    >>> made = Quantize("127.0.0.1:50151", "mxfp8_e4m3", column="x")
    >>> made.columns
    ('codes', 'scales')
  """

  def __init__(
    self,
    servers: str | None = None,
    format: Format = "nvfp4",
    *,
    column: str = "data",
    dtype: DType | None = None,
    prefix: str = "",
    keep: bool = True,
    threads: int = 4,
    settings: Mapping[str, Any] | None = None,
    **keywords: Unpack[QuantizeKeywords],
  ) -> None:
    """Checks the arguments. Does not connect.

    Args:
      servers: As for `quantd.connect`, several separated by commas.
      format: As for `Connection.quantize`.
      column: The column of tensors, of 1 to 8 dimensions each. Lists of numbers
        are read as `dtype`, or else as f32.
      dtype: The type of the elements if numpy does not have it: "bf16" for a
        column of uint16, since Arrow has no bf16.
      prefix: Begins the names of new columns.
      keep: Whether the column of tensors stays in the batch.
      threads: The number of calls at a time.
      settings: More arguments of `quantd.connect`, such as tls, token_file or
        retry. The default deadline is 300 s, including retries.
      **keywords: Options, as for `Connection.quantize`, except for `splits`.

    Raises:
      quantd.Invalid: An argument is invalid.
    """
    if keywords.get("splits") is not None:
      raise Invalid.of("splits", "none: each record is one tensor", "splits")
    if keywords.get("stochastic") is True:
      expected = "a seed, so that a repeated batch gets the same bytes"
      raise Invalid.of("stochastic", expected, "True")
    if threads < 1:
      raise Invalid.of("threads", "at least 1", str(threads))
    word = None if dtype is None else DTYPES.float_word("dtype", dtype)
    self._servers = servers
    self._settings = settings
    self._dtype: Any = word
    self._format = format
    self._column = column
    self._prefix = prefix
    self._keep = keep
    self._threads = threads
    self._keywords = keywords
    self._lock = threading.Lock()
    self._connection: Connection | None = None
    # Reports an invalid address now and not with the first batch.
    self._connect().close()

  def _connect(self) -> Connection:
    settings: Any = {**_PATIENCE, **(self._settings or {})}
    return connect(self._servers, **settings)

  def __getstate__(self) -> dict[str, Any]:
    """Pickles the arguments."""
    return dict(self.__dict__, _lock=None, _connection=None)

  def __setstate__(self, state: dict[str, Any]) -> None:
    """Restores the arguments. Does not connect."""
    self.__dict__.update(state, _lock=threading.Lock())

  def types(self) -> dict[str, str]:
    """Returns the element types of new columns by name."""
    asked = options.quantize_message(self._format, self._keywords)
    dtype = DTYPES.parse("dtype", self._dtype or "bf16")
    try:
      # The kinds and types of parts do not depend on the shape.
      found = geometry.specs(pb.Tensor(dtype=dtype, shape=[256, 256]), asked)
    except (ValueError, IndexError, ZeroDivisionError) as bad:
      raise Invalid.of("options", "a legal combination", str(bad)) from bad
    return {self._name(spec.kind): spec.dtype for spec in found}

  def _name(self, kind: str) -> str:
    return self._prefix + _NAMES.get(kind, kind)

  @property
  def columns(self) -> tuple[str, ...]:
    """The names of the new columns."""
    return tuple(self.types())

  def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
    """Quantizes a batch, several records at a time.

    Raises:
      quantd.Invalid: A record is invalid, or the column does not exist.
      quantd.Error: A call failed after all retries; a note names the record.
    """
    if self._column not in batch:
      raise Invalid.of("column", " or ".join(batch), repr(self._column))
    out = {k: v for k, v in batch.items() if self._keep or k != self._column}
    parts: dict[str, list[Array]] = {name: [] for name in self.columns}
    if clash := sorted(parts.keys() & out.keys()):
      raise Invalid.of(
        "prefix", "one that makes new names", f"an existing one: {clash[0]}"
      )
    with concurrent.futures.ThreadPoolExecutor(self._threads) as pool:
      calls = [pool.submit(self._quantize, x) for x in batch[self._column]]
      for i, call in enumerate(calls):
        try:
          t = call.result()
        except Error as error:
          for later in calls[i:]:
            later.cancel()
          error.add_note(f"of record {i}")
          raise
        for kind, part in t.parts.items():
          made = part.array()
          plain = made if made.dtype == np.float32 else made.view(np.uint8)
          parts[self._name(kind)].append(plain)
    return out | {name: _stack(arrays) for name, arrays in parts.items()}

  def _quantize(self, x: Any) -> QuantizedTensor:
    with self._lock:
      if self._connection is None:
        self._connection = self._connect()
    if isinstance(x, list):
      # A list has no type. A list of bf16 has the bits of elements as integers.
      kinds = {"f32": "<f4", "f16": "<f2", "bf16": "<u2"}
      x = np.asarray(x, kinds[self._dtype or "f32"])
    return self._connection.quantize(
      x, self._format, dtype=self._dtype, **self._keywords
    )


def _stack(arrays: Sequence[Array]) -> Array:
  """Stacks records, or returns an array of objects if their shapes differ."""
  if len({a.shape for a in arrays}) <= 1:
    return np.stack(arrays) if arrays else np.empty((0,), np.uint8)
  ragged = np.empty(len(arrays), object)
  ragged[:] = arrays
  return ragged
