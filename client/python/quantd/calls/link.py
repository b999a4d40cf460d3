"""The base class of a connection, with its settings and its engine."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from quantd.calls.call_options import CallOptions, checked
from quantd.calls.progress import inside, telling
from quantd.engines import open_engine
from quantd.engines.engine import Engine, Reply, Settings
from quantd.errors import Invalid
from quantd.tensors import arrays, device
from quantd.tensors.device import DeviceBytes, settle
from quantd.tensors.elements import Like, size_of
from quantd.values import is_list, shown, whole
from quantd.words import DTYPES, DType


class Link:
  """Sends requests through an engine, and manages a connection's lifetime."""

  def __init__(self, settings: Settings, engine: str | None = None) -> None:
    """Opens the engine. The first call connects."""
    self._settings = settings
    self._engine_name = engine
    self._engine: Engine = open_engine(settings, engine)

  @property
  def target(self) -> str:
    """The addresses of the servers."""
    return self._settings.target

  @property
  def engine(self) -> str:
    """The name of the engine: "grpc" or "native"."""
    return self._engine.name

  @property
  def takes_device(self) -> bool:
    """Whether calls accept arrays in GPU memory and place results there."""
    return self._engine.takes_device

  def empty(
    self, shape: Sequence[int], dtype: DType = "bf16", *, like: Like = None
  ) -> Any:
    """Allocates an array in memory that calls use in place, without a copy.

    With `memory_socket` the memory is shared with the server. With local CUDA
    devices it is page-locked. Otherwise it is ordinary memory. Its content is
    unspecified. Calls recognize the memory by address: any part of it may be an
    input or a buffer of `out=`, on any thread. It may outlive the connection.

    Args:
      shape: The shape of the array.
      dtype: "f32", "f16" or "bf16". bf16 in numpy is ml_dtypes' bfloat16 if
        that is installed, and otherwise uint16 for the bits of bf16.
      like: "numpy", "torch", or an array of either. None uses numpy.

    Returns:
      The array.

    Raises:
      quantd.Unavailable: No server listens at `memory_socket`.
      quantd.Error: The server refuses to share more memory.

    Example:
      >>> x = q.empty((4, 32), "f32")
      >>> x[:] = 1.0
      >>> float(q.quantize(x, "mxfp8_e4m3").dequantize("f32").sum())
      128.0
    """
    word = DTYPES.float_word("dtype", dtype)
    library = arrays.library_for(like)
    if library == "jax":
      raise Invalid.of(
        "like", "numpy or torch, whose arrays are writable", "jax"
      )
    if not is_list(shape):
      raise Invalid.of("shape", "a list of sizes", shown(shape))
    sizes = tuple(whole("shape", d, 0, 2**48) for d in shape)
    nbytes = math.prod(sizes) * size_of(word)
    if nbytes == 0:
      return arrays.empty(library, word, sizes)
    memory = np.frombuffer(self._engine.memory(nbytes), np.uint8)
    return arrays.shown_as(library, memory, word, sizes)

  def _call(
    self,
    method: str,
    header: bytes,
    payload: Sequence[Any],
    into: Mapping[int, Any],
    call: CallOptions,
  ) -> Reply:
    how = checked(method, call)
    if self._engine.takes_device:
      settle((*payload, *into.values()))
    progress = call.get("progress", False)
    if progress is False:
      return self._engine.call(method, header, payload, into, how)
    total = sum(buffer.nbytes for buffer in payload)
    with telling(progress, total, method.lower(), how.cancel) as (tell, stop):
      how = how._replace(progress=tell, cancel=stop)
      return self._engine.call(method, header, payload, into, how)

  def _values(
    self,
    method: str,
    request: Any,
    payload: Sequence[Any],
    part: tuple[int, str, tuple[int, ...]],
    out: Any,
    like: Like,
    default: str,
    call: CallOptions,
  ) -> Any:
    """Makes a call with a single output, and returns it as an array.

    `part` is the output's kind, the name of its type and its shape.
    """
    kind, word, shape = part
    if out is not None and like is not None:
      raise Invalid.of(
        "like", "None, because the array in out= is returned", "a library"
      )
    header = request.SerializeToString()
    near = payload[0] if payload else None
    if isinstance(near, DeviceBytes) and out is None and like is None:
      size = math.prod(shape) * size_of(word)
      (there,) = device.empty(near, [size])
      self._call(method, header, payload, {kind: there}, call)
      return there.view(word, shape)
    library = arrays.library_for(like, default)
    made = arrays.empty(library, word, shape) if out is None else out
    target = arrays.writable(made, word, shape, "out", self.takes_device)
    self._call(method, header, payload, {kind: target}, call)
    return arrays.to_jax(made) if library == "jax" and out is None else made

  # --- lifetime --------------------------------------------------------------

  def close(self) -> None:
    """Cancels calls in flight and closes connections. Idempotent.

    Raises:
      quantd.Invalid: A progress function called `close`, which would wait for
        the function's own call.
    """
    if inside():
      expected = "a function that raises, or cancels, to end the call"
      raise Invalid.of("progress", expected, "one that closes the connection")
    self._engine.close()

  def __enter__(self) -> Self:
    """Returns itself. `close` is called at the end."""
    return self

  def __exit__(self, *_: object) -> None:
    """Closes the connection."""
    self.close()

  def __reduce__(self) -> tuple[Any, ...]:
    """Pickles the settings, including a token."""
    return (type(self), (self._settings, self._engine_name))

  def __repr__(self) -> str:
    """Shows the target and the engine."""
    return f"Connection({self.target!r}, engine={self.engine!r})"
