"""How one call is made, beside what it asks for."""

import re
from typing import Any, NamedTuple

import numpy as np

from quantd.engines.engine import Cancellation
from quantd.errors import Invalid
from quantd.values import shown
from quantd.words import PRIORITIES

# Seconds: no call takes longer.
YEAR = 365 * 24 * 3600.0

# Of W3C Trace Context; the version, the trace's id, the caller's, flags, and
# what later versions may have. gRPC takes no other characters.
_TRACE = re.compile(
  r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[!-~]*)?"
)
_LONGEST_TRACE = 256


class CallOptions(NamedTuple):
  """What all calls take, as the caller said it."""

  timeout: Any = None
  cancel: Any = None
  progress: Any = False
  traceparent: Any = None
  priority: Any = "normal"

  def checked(self) -> "CallOptions":
    """The same in types that an engine takes.

    Raises:
      quantd.Invalid: One of them is no good.
    """
    timeout, cancel, _, trace, priority = self
    if timeout is cancel is trace is None and _is_priority(priority):
      return self
    if timeout is not None:
      if not _is_time(timeout):
        raise Invalid.of(
          "timeout", "seconds above 0, up to a year", shown(timeout)
        )
      # A deadline in numpy's fp32 would be minutes off.
      timeout = float(timeout)
    check_cancel(cancel)
    if trace is not None and not _is_trace(trace):
      expected = (
        "one of W3C Trace Context: 00-<32 digits>-<16>-<2>, hexadecimal"
      )
      raise Invalid.of("traceparent", expected, shown(trace))
    if not _is_priority(priority):
      raise Invalid.of("priority", " or ".join(PRIORITIES), shown(priority))
    return self._replace(timeout=timeout)


def _is_time(value: Any) -> bool:
  if not isinstance(value, (int, float, np.number)) or isinstance(value, bool):
    return False
  return bool(0 < value <= YEAR)


def _is_priority(value: Any) -> bool:
  return isinstance(value, str) and value in PRIORITIES


def check_cancel(cancel: Any) -> None:
  """Refuses what is no Cancellation, as an Event of threading."""
  if cancel is not None and not isinstance(cancel, Cancellation):
    raise Invalid.of("cancel", "a quantd.Cancellation", type(cancel).__name__)


def _is_trace(text: Any) -> bool:
  if not isinstance(text, str) or len(text) > _LONGEST_TRACE:
    return False
  found = _TRACE.fullmatch(text)
  if found is None:
    return False
  version, trace, caller, more = found.groups()
  zeros = not trace.strip("0") or not caller.strip("0")
  return version != "ff" and not zeros and (version != "00" or more is None)
