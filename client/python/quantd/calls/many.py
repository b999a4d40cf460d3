"""Many tensors at once: a state dict, with a bar that shows how far it is."""

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from quantd.calls.link import check_cancel
from quantd.engines.engine import Cancellation
from quantd.errors import Error, Invalid
from quantd.tensors import arrays
from quantd.tensors.tensor import QuantizedTensor
from quantd.values import flag, shown, whole


class _Silent:
  """What stands for tqdm where it is not installed or not wanted."""

  def update(self, count: int) -> None:
    """Shows nothing."""

  def close(self) -> None:
    """Has nothing to close."""


def _bar(total: int, wanted: bool) -> Any:
  if not flag("progress", wanted):
    return _Silent()
  try:
    from tqdm.auto import tqdm
  except ImportError:
    # At the line that called `Connection.quantize_all`.
    warnings.warn(
      "progress=True shows nothing: tqdm is not installed", stacklevel=4
    )
    return _Silent()
  return tqdm(total=total, unit="B", unit_scale=True, desc="quantize")


def _named(tensors: Any) -> dict[str, Any]:
  try:
    named = dict(tensors)
  except (TypeError, ValueError):
    expected = "tensors by their names, as a state dict has them"
    raise Invalid.of("tensors", expected, type(tensors).__name__) from None
  for name in named:
    if not isinstance(name, str):
      raise Invalid.of("tensors", "names", shown(name))
  return named


@contextlib.contextmanager
def _telling(name: str) -> Iterator[None]:
  """Around work on one tensor: its errors say which."""
  try:
    yield
  except Error as error:
    error.say(f"{name}: {error.message}")
    raise


def quantize_all(
  call: Callable[..., QuantizedTensor],
  tensors: Mapping[str, Any] | Iterable[tuple[str, Any]],
  at_once: int,
  progress: bool,
  dtype: str | None,
  cancel: Cancellation | None,
) -> dict[str, QuantizedTensor]:
  """See `quantd.Connection.quantize_all`; `call` quantizes one."""
  for name in ("out", "fused"):
    if name in getattr(call, "keywords", {}):
      raise Invalid.of(name, "none: quantize such tensors one by one", name)
  named = _named(tensors)
  at_once = whole("at_once", at_once, 1, 1024)
  sizes = {}
  for name, x in named.items():
    with _telling(name):
      sizes[name] = arrays.read(x, "tensor", dtype).data.nbytes
  stop = Cancellation()
  check_cancel(cancel)
  bar = _bar(sum(sizes.values()), progress)
  forget = cancel.on_cancel(stop.cancel) if cancel is not None else None
  made: dict[str, QuantizedTensor] = {}
  with ThreadPoolExecutor(at_once, "quantd") as threads:
    work = {threads.submit(call, x, cancel=stop): n for n, x in named.items()}
    try:
      for done in as_completed(work):
        name = work[done]
        with _telling(name):
          made[name] = done.result()
        bar.update(sizes[name])
    except BaseException:
      # The first error ends the others, and a KeyboardInterrupt all of them.
      stop.cancel()
      threads.shutdown(wait=False, cancel_futures=True)
      raise
    finally:
      bar.close()
      if forget is not None:
        forget()
  return {name: made[name] for name in named}
