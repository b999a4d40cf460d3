"""Quantization in Spark: rows of tensors in, rows of their parts out.

  import quantd.spark
  out = quantd.spark.quantize(frame, "gpu-a:50151,gpu-b:50151", "nvfp4")

`frame` has the columns id, shape (array<int>) and bytes (binary: the elements,
little endian, row by row); the result has id, codes, scales and amax. Spark
places the work and repeats tasks that fail; quantd's own connection goes to
another server where one is lost.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from quantd.columns import Columns, column_of
from quantd.errors import Invalid
from quantd.options import QuantizeKeywords
from quantd.tensors.arrays import view
from quantd.words import DTYPES, FLOATS

if TYPE_CHECKING:
  from typing import Unpack

__all__ = ["quantize", "quantizer"]


def quantize(
  frame: Any,
  servers: str,
  format: str = "nvfp4",
  *,
  dtype: str = "bf16",
  id: str = "id",
  shape: str = "shape",
  data: str = "bytes",
  threads: int = 4,
  settings: Mapping[str, Any] | None = None,
  **keywords: "Unpack[QuantizeKeywords]",
) -> Any:
  """Quantizes every row of a DataFrame, lazily, as Spark does.

  Each row is quantized alone: its bytes are those of `Connection.quantize`,
  however often Spark repeats a task.

  Args:
    frame: A pyspark.sql.DataFrame.
    servers: As for `quantd.connect`, several with commas between.
    format: As for `Connection.quantize`.
    dtype: The type of all elements: "f32", "f16" or "bf16".
    id: The column that tells rows apart, of any type; goes through.
    shape: The column of shapes.
    data: The column of bytes.
    threads: Calls that a task makes at once.
    settings: Further arguments of `quantd.connect`: tls, token_file, retry.
      Without a deadline a call has 300 s, retries included.
    **keywords: Options, as for `Connection.quantize`; no splits.

  Returns:
    A DataFrame: the id, then "codes" and "scales" as binary (fp32 scales as
    array<float>), "amax" as array<float> where the format has one, and what
    else the options ask for, like "columnwise_codes".

  Raises:
    quantd.Invalid: An argument is no good. What is wrong with a row fails the
      job, with its id.
  """
  from pyspark.sql import types as sql

  DTYPES.parse("dtype", dtype, FLOATS)
  columns = Columns(servers, format, dtype, threads, settings, keywords)
  schema = sql.StructType([frame.schema[id]])
  for name, word in columns.types().items():
    kind = sql.ArrayType(sql.FloatType(), False) if word == "f32" else None
    schema.add(name, kind or sql.BinaryType(), False)
  rows = frame.select(id, shape, data)
  return rows.mapInArrow(_function(columns, dtype), schema)


def quantizer(
  servers: str,
  format: str = "nvfp4",
  *,
  dtype: str = "bf16",
  threads: int = 4,
  settings: Mapping[str, Any] | None = None,
  **keywords: "Unpack[QuantizeKeywords]",
) -> Callable[[Iterator[Any]], Iterator[Any]]:
  """The function for `DataFrame.mapInArrow`, for a schema of one's own.

  Takes batches whose first three columns are id, shape and bytes, in that
  order, and gives the id and the columns that `quantize` lists.

  Args:
    servers: As for `quantize`.
    format: As for `quantize`.
    dtype: As for `quantize`.
    threads: As for `quantize`.
    settings: As for `quantize`.
    **keywords: As for `quantize`.

  Returns:
    A function that pickles, and connects by its first batch.

  Raises:
    quantd.Invalid: An argument is no good.
  """
  DTYPES.parse("dtype", dtype, FLOATS)
  columns = Columns(servers, format, dtype, threads, settings, keywords)
  return _function(columns, dtype)


def _function(
  columns: Columns, dtype: str
) -> Callable[[Iterator[Any]], Iterator[Any]]:
  def run(batches: Iterator[Any]) -> Iterator[Any]:
    try:
      for batch in batches:
        yield _quantize_batch(columns, dtype, batch)
    finally:
      columns.close()

  return run


def _quantize_batch(columns: Columns, dtype: str, batch: Any) -> Any:
  """A pyarrow.RecordBatch of parts for one of tensors."""
  import pyarrow as pa

  ids, shapes, data = batch.columns[:3]
  names = ids.to_pylist()
  tensors = [
    _tensor(dtype, shapes[i].as_py(), data[i].as_buffer(), names[i])
    for i in range(batch.num_rows)
  ]
  types = columns.types()
  parts: dict[str, list[Any]] = {name: [] for name in types}
  for t in columns.quantize(tensors, names):
    for kind in t.parts:
      name, part = column_of(kind), t.part(kind)
      if types[name] == "f32":
        parts[name].append(part.reshape(-1))
      else:
        parts[name].append(part.tobytes())
  return pa.RecordBatch.from_arrays(
    [ids]
    + [
      pa.array(
        parts[name], pa.list_(pa.float32()) if word == "f32" else pa.binary()
      )
      for name, word in types.items()
    ],
    [batch.schema.names[0], *types],
  )


def _tensor(dtype: str, shape: list[int] | None, data: Any, name: Any) -> Any:
  """A row's tensor, as a view of Arrow's memory."""
  if shape is None or data is None:
    field = "shape" if shape is None else "bytes"
    raise Invalid.of(field, "a value in every row", f"null in row {name!r}")
  flat = np.frombuffer(data, np.uint8)
  try:
    if any(size is None or size < 0 for size in shape):
      raise ValueError("no shape")
    # bf16 by its bits where ml_dtypes is not installed; the call says the type.
    return view(flat, dtype, tuple(shape))
  except ValueError:
    raise Invalid.of(
      "bytes",
      f"the elements of a {dtype} tensor of shape {shape}",
      f"{flat.size} bytes in row {name!r}",
    ) from None
