"""Many tensors at once: a state dict, with a bar that shows how far it is."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from quantd.engines.engine import Cancellation
from quantd.errors import Error, Invalid
from quantd.options import whole
from quantd.tensors import arrays
from quantd.tensors.tensor import QuantizedTensor


class _Silent:
  """What stands for tqdm where it is not installed or not wanted."""

  def update(self, count: int) -> None:
    """Shows nothing."""

  def close(self) -> None:
    """Has nothing to close."""


def _bar(total: int, wanted: bool) -> Any:
  if not wanted:
    return _Silent()
  try:
    from tqdm.auto import tqdm
  except ImportError:
    warnings.warn("no bar is shown: pip install tqdm", stacklevel=4)
    return _Silent()
  return tqdm(total=total, unit="B", unit_scale=True, desc="quantize")


def quantize_all(
  call: Callable[..., QuantizedTensor],
  tensors: Mapping[str, Any] | Iterable[tuple[str, Any]],
  at_once: int,
  progress: bool,
) -> dict[str, QuantizedTensor]:
  """See `quantd.Connection.quantize_all`; `call` quantizes one."""
  try:
    named = dict(tensors)
  except (TypeError, ValueError):
    got = type(tensors).__name__
    raise Invalid.of("tensors", "arrays by their names", got) from None
  at_once = whole("at_once", at_once, 1, 256)
  sources = {name: arrays.read(x, name) for name, x in named.items()}
  bar = _bar(sum(s.data.nbytes for s in sources.values()), progress)
  stop = Cancellation()
  made: dict[str, QuantizedTensor] = {}
  with ThreadPoolExecutor(at_once, "quantd") as threads:
    work = {threads.submit(call, x, cancel=stop): n for n, x in named.items()}
    try:
      for done in as_completed(work):
        name = work[done]
        try:
          made[name] = done.result()
        except Error as error:
          error.add_note(f"of the tensor {name!r}")
          raise
        bar.update(sources[name].data.nbytes)
    except BaseException:
      # The first error ends the others, and a KeyboardInterrupt all of them.
      stop.cancel()
      threads.shutdown(wait=False, cancel_futures=True)
      raise
    finally:
      bar.close()
  return {name: made[name] for name in named}
