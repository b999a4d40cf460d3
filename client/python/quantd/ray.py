"""Quantization in Ray: of columns of Ray Data, and of whole models.

  import quantd.ray
  ds.map_batches(
    quantd.ray.Quantize, fn_constructor_args=("gpu-a:50151,gpu-b:50151",),
    fn_constructor_kwargs={"column": "x", "dtype": "bf16"}, concurrency=4)

Ray places the work and tries it again where a worker is lost; quantd's own
connection goes to another server where one is lost. There is no cluster logic
here beyond that.
"""

import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quantd import bands
from quantd.bands import joining
from quantd.columns import Columns, column_of
from quantd.errors import Invalid
from quantd.options import QuantizeKeywords
from quantd.tensors.elements import Array

if TYPE_CHECKING:
  from typing import Unpack

__all__ = ["Quantize", "convert"]


class Quantize:
  """A class for `ray.data.Dataset.map_batches`: tensors in, their parts out.

  Adds to each batch the columns "codes" and "scales" as uint8 (fp32 scales as
  float32), "amax" as float32 where the format has one, and what else the
  options ask for: "columnwise_codes", "tensor_amax", "dbias" ... Other columns
  go through. Each record is quantized alone: its bytes are those of
  `Connection.quantize`, whatever the batches.

  Each actor connects by its first batch. Ray starts an actor anew where it or
  its node dies, and then repeats the batch, which gives the same bytes.

  Example:
    >>> servers = "127.0.0.1:50151"
    >>> made = Quantize(servers, "mxfp8_e4m3", column="x", dtype="bf16")
    >>> made.columns
    ('codes', 'scales')
  """

  def __init__(
    self,
    servers: str,
    format: str = "nvfp4",
    *,
    column: str = "data",
    dtype: str | None = None,
    prefix: str = "",
    keep: bool = True,
    threads: int = 4,
    settings: Mapping[str, Any] | None = None,
    **keywords: "Unpack[QuantizeKeywords]",
  ) -> None:
    """Checks its arguments; connects to nothing yet.

    Args:
      servers: As for `quantd.connect`, several with commas between.
      format: As for `Connection.quantize`.
      column: The column of tensors, of 1 to 8 dimensions each.
      dtype: The type of its elements where numpy cannot tell: "bf16" of a
        column of uint16, which is how Arrow keeps it.
      prefix: What the names of new columns begin with.
      keep: Whether the column of tensors stays.
      threads: Calls that an actor makes at once.
      settings: Further arguments of `quantd.connect`: tls, token_file, retry.
        Without a deadline a call has 300 s, retries included.
      **keywords: Options, as for `Connection.quantize`; no splits.

    Raises:
      quantd.Invalid: An argument is no good.
    """
    self._columns = Columns(servers, format, dtype, threads, settings, keywords)
    self._column = column
    self._prefix = prefix
    self._keep = keep

  @property
  def columns(self) -> tuple[str, ...]:
    """The names of the columns that it adds."""
    return tuple(self._prefix + name for name in self._columns.types())

  def __call__(self, batch: dict[str, Array]) -> dict[str, Array]:
    """Quantizes a batch, as `map_batches` gives it with batch_format="numpy".

    Raises:
      quantd.Invalid: A record is no good, or there is no such column.
      quantd.Error: A call failed after all retries.
    """
    if self._column not in batch:
      raise Invalid.of("column", " or ".join(batch), repr(self._column))
    out = {k: v for k, v in batch.items() if self._keep or k != self._column}
    parts: dict[str, list[Array]] = {name: [] for name in self.columns}
    for t in self._columns.quantize(list(batch[self._column])):
      for kind in t.parts:
        parts[self._prefix + column_of(kind)].append(_plain(t.part(kind)))
    clash = sorted(parts.keys() & out.keys())
    if clash:
      raise Invalid.of("prefix", "one that makes new names", f"old {clash[0]}")
    return out | {name: _stack(arrays) for name, arrays in parts.items()}


def _plain(a: Array) -> Array:
  """Of a type that Arrow has: FP8 as its bytes."""
  return a if a.dtype == np.float32 else a.view(np.uint8)


def _stack(arrays: Sequence[Array]) -> Array:
  """One array with records along its first axis; of objects if they differ."""
  if len({a.shape for a in arrays}) <= 1:
    return np.stack(arrays) if arrays else np.empty((0,), np.uint8)
  ragged = np.empty(len(arrays), object)
  ragged[:] = arrays
  return ragged


def convert(
  source: str,
  output: str,
  *,
  servers: str,
  flags: Sequence[str] = (),
  quantctl: str = "quantctl",
  attempts: int = 5,
  remote: Mapping[str, Any] | None = None,
) -> bands.Converted:
  """Converts a model directory by Ray tasks, each of a band of its shards.

  `quantctl convert`, the C++ converter, does the work of each task, and must
  be on every node. A band is a shard, or as many neighbours as hold weights
  that share an amax. The output is that of one `quantctl convert` of the whole
  model, byte for byte: before anything is converted it is made certain, from
  the headers, that the bands come to the same plan.

  Resumable: what is done lies below "<output>/.quantd-bands", and the same
  call goes on from there, in the middle of a band, too. One call at a time.

  Args:
    source: The directory, with config.json, on a file system that all nodes
      share.
    output: The directory to write, on one that all nodes share.
    servers: As quantctl's --server: several with commas between, or "local".
    flags: Others of `quantctl convert`: ("--format", "nvfp4", "--dialect",
      "modelopt"). Not those by which a weight's format depends on others
      ("--format auto", rules that leave more than one format), nor --report
      or --shards.
    quantctl: The program, a path or a name to be found.
    attempts: How often a band is tried where no server answers.
    remote: Options of the tasks, as for `ray.remote`: num_cpus, resources.

  Returns:
    What was done.

  Raises:
    quantd.Invalid: The model or an argument is no good.
    quantd.Error: A band failed after all attempts.
  """
  import ray

  work = bands.prepare(source, output, servers, flags, quantctl)
  options = {"max_retries": max(attempts, 1), **(remote or {})}
  task = ray.remote(**options)(_convert_band)
  calls = [task.remote(work, i, attempts) for i in range(len(work.shards))]
  try:
    resumed = [bool(done) for done in ray.get(calls)]
  except ray.exceptions.RayTaskError as failed:
    for call in calls:
      ray.cancel(call)
    raise failed.cause from failed
  joining.finish(work)
  return bands.Converted(
    str(pathlib.Path(output)), len(resumed), resumed.count(True)
  )


def _convert_band(work: bands.Work, band: int, attempts: int) -> bool:
  """In a task: whether an earlier one had converted the band."""
  pause = 0.5
  for left in reversed(range(max(attempts, 1))):
    try:
      return bands.convert_band(work, band)
    except bands.Again:
      if left == 0:
        raise
      time.sleep(pause)
      pause = min(2 * pause, 30)
  raise AssertionError("unreachable")
