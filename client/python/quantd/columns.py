"""Columns of tensors in, columns of their parts out: what pipelines share.

A record is one tensor and is quantized alone, so that its bytes do not depend
on how an engine cuts its data into batches and tries these again.
"""

import concurrent.futures
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quantd import options
from quantd import quantd_pb2 as pb
from quantd.calls.connecting import connect
from quantd.calls.connection import Connection
from quantd.errors import Error, Invalid
from quantd.options import QuantizeKeywords
from quantd.tensors import geometry
from quantd.tensors.tensor import QuantizedTensor
from quantd.words import DTYPES, FLOATS

# Columns of parts whose kind is not their name.
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
# A pipeline would rather wait for a server than fail: these are of a call,
# retries included.
_PATIENCE: Mapping[str, Any] = {"deadline": 300.0}


class Columns:
  """Quantizes records by a connection that is made where it is first used.

  Pickles as its settings. May be used by many threads.
  """

  def __init__(
    self,
    servers: str,
    format: str,
    dtype: str | None,
    threads: int,
    settings: Mapping[str, Any] | None,
    keywords: QuantizeKeywords,
  ) -> None:
    """Checks what it is given, and connects to nothing."""
    if keywords.get("splits") is not None:
      raise Invalid.of("splits", "none: each record is a tensor", "groups")
    if keywords.get("stochastic") is True:
      raise Invalid.of(
        "stochastic", "a seed, for one that is drawn would be lost", "True"
      )
    if threads < 1:
      raise Invalid.of("threads", "at least 1", str(threads))
    if dtype is not None:
      DTYPES.parse("dtype", dtype, FLOATS)
    self._state = (servers, format, dtype, threads, settings, keywords)
    self._dtype = dtype
    self._format = format
    self._threads = threads
    self._keywords = keywords
    self._settings = {**_PATIENCE, **(settings or {})}
    self._servers = servers
    self._lock = threading.Lock()
    self._connection: Connection | None = None
    # Says now what is wrong with an address.
    connect(servers, **self._settings).close()

  def __reduce__(self) -> tuple[Any, ...]:
    """Pickles as what it was made of."""
    return (Columns, self._state)

  def types(self) -> dict[str, str]:
    """The columns that come out, and the word of each one's element type."""
    asked = options.quantize_message(self._format, self._keywords)
    dtype = DTYPES.parse("dtype", self._dtype or "bf16")
    try:
      # Which parts there are does not depend on the shape.
      found = geometry.specs(pb.Tensor(dtype=dtype, shape=[256, 256]), asked)
    except (ValueError, IndexError, ZeroDivisionError) as bad:
      raise Invalid.of("options", "those that go together", str(bad)) from bad
    return {column_of(spec.kind): spec.dtype for spec in found}

  def quantize(
    self, tensors: Sequence[Any], names: Sequence[Any] = ()
  ) -> Iterator[QuantizedTensor]:
    """Quantizes records, some at once, and gives them in their order.

    Args:
      tensors: Arrays.
      names: What errors call them; without it their numbers.

    Raises:
      quantd.Error: Of the first that failed, with its name.
    """
    connection = self._connected()

    def one(x: Any) -> QuantizedTensor:
      return connection.quantize(
        x, self._format, dtype=self._dtype, **self._keywords
      )

    with concurrent.futures.ThreadPoolExecutor(self._threads) as pool:
      calls = [pool.submit(one, x) for x in tensors]
      for i, call in enumerate(calls):
        try:
          yield call.result()
        except Error as error:
          for later in calls[i:]:
            later.cancel()
          error.add_note(f"of record {names[i] if names else i}")
          raise

  def _connected(self) -> Connection:
    with self._lock:
      if self._connection is None:
        self._connection = connect(self._servers, **self._settings)
      return self._connection

  def close(self) -> None:
    """Lets go of the connection; the next call makes another one."""
    with self._lock:
      connection, self._connection = self._connection, None
    if connection is not None:
      connection.close()


def column_of(kind: str) -> str:
  """The name of a part's column.

  Example:
    >>> column_of("rowwise_data"), column_of("columnwise_amax")
    ('codes', 'columnwise_amax')
  """
  return _NAMES.get(kind, kind)
