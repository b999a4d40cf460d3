"""Quantizes many tensors at a time, such as a state dict."""

import contextlib
import contextvars
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from quantd import words
from quantd.calls import progress
from quantd.calls.call_options import check_cancel
from quantd.engines.engine import Cancellation, Progress
from quantd.errors import Error, Invalid
from quantd.tensors import arrays
from quantd.tensors.elements import size_of
from quantd.tensors.tensor import QuantizedTensor
from quantd.values import is_list, shown, whole


def _named(tensors: Any) -> dict[str, Any]:
  try:
    named = dict(tensors)
  except (TypeError, ValueError):
    expected = "tensors by name, as in a state dict"
    raise Invalid.of("tensors", expected, type(tensors).__name__) from None
  for name in named:
    if not isinstance(name, str):
      raise Invalid.of("tensors", "names", shown(name))
  return named


def chosen(
  tensors: Any, only: Sequence[str], ignore: Sequence[str], dtype: Any
) -> dict[str, Any]:
  """Returns the weights of the modules that the patterns select."""
  wanted, other = _patterns("only", only), _patterns("ignore", ignore)
  return {
    name: x
    for name, x in _named(tensors).items()
    if _is_weight(x, dtype)
    and (not wanted or _matches(wanted, name))
    and not _matches(other, name)
  }


def _patterns(field: str, patterns: Any) -> list[re.Pattern[str]]:
  """Compiles patterns of modules, as quantctl does."""
  if not is_list(patterns) or not all(isinstance(p, str) for p in patterns):
    raise Invalid.of(field, "a list of patterns", shown(patterns))
  made = []
  for text in patterns:
    glob = re.escape(text).replace(r"\*", ".*").replace(r"\?", ".") + r"\Z"
    source = text[3:] if text.startswith("re:") else glob
    try:
      made.append(re.compile(source, re.DOTALL))
    except re.error as wrong:
      raise Invalid.of(field, "a pattern", f"{text!r}: {wrong}") from None
    if not text or not source:
      raise Invalid.of(field, "a pattern that matches something", repr(text))
  return made


def _matches(patterns: list[re.Pattern[str]], name: str) -> bool:
  module = name.removesuffix(".weight")
  return any(p.match(name) or p.match(module) for p in patterns)


def _is_weight(x: Any, dtype: Any) -> bool:
  """Returns whether x is a weight and not a bias, counter or mask."""
  shape, of = getattr(x, "shape", None), str(getattr(x, "dtype", ""))
  if shape is None or not of:
    return True  # not an array: the call will report the error
  bits = 16
  if dtype is not None:
    bits = 8 * size_of(words.DTYPES.float_word("tensor.dtype", dtype))
  is_other = ("int" in of or "bool" in of) and not of.endswith(f"uint{bits}")
  return len(shape) > 1 and not is_other


@contextlib.contextmanager
def _telling(name: str) -> Iterator[None]:
  """Adds the tensor's name to errors raised inside."""
  try:
    yield
  except Error as error:
    error.say(f"{name}: {error.message}")
    raise


class _Sum:
  """Reports the progress of many tensors as one."""

  def __init__(self, function: Progress, total: int) -> None:
    self._function = function
    self._total = total
    self._lock = threading.Lock()
    self._done = 0

  def part(self) -> Progress:
    """The progress function for one of the tensors."""
    last = 0

    def tell(done: int, total: int) -> None:
      nonlocal last
      with self._lock:
        self._done += done - last
        last = done
        self._function(self._done, self._total)

    return tell


def quantize_all(
  call: Callable[..., QuantizedTensor],
  named: Mapping[str, Any],
  at_once: int,
  wanted: progress.Wanted,
  dtype: Any,
  cancel: Cancellation | None,
) -> dict[str, QuantizedTensor]:
  """See `quantd.Connection.quantize_all`. `call` quantizes one tensor."""
  at_once = whole("at_once", at_once, 1, 1024)
  sizes = {}
  for name, x in named.items():
    with _telling(name):
      sizes[name] = arrays.read(x, "tensor", dtype).data.nbytes
  stop = Cancellation()
  check_cancel(cancel)
  total = sum(sizes.values())
  tell, close = progress.function_of(wanted, total, "quantize")
  told = _Sum(tell, total) if tell is not None else None

  def one(x: Any) -> QuantizedTensor:
    how = told.part() if told is not None else False
    return call(x, cancel=stop, progress=how)

  forget = cancel.on_cancel(stop.cancel) if cancel is not None else None
  made: dict[str, QuantizedTensor] = {}
  with ThreadPoolExecutor(at_once, "quantd") as threads:
    # The calls belong to the trace that is current in this thread.
    work = {
      threads.submit(contextvars.copy_context().run, one, x): n
      for n, x in named.items()
    }
    try:
      for done in as_completed(work):
        name = work[done]
        with _telling(name):
          made[name] = done.result()
    except BaseException:
      # The first error cancels the other calls. So does a KeyboardInterrupt.
      stop.cancel()
      threads.shutdown(wait=False, cancel_futures=True)
      raise
    finally:
      close()
      if forget is not None:
        forget()
  return {name: made[name] for name in named}
