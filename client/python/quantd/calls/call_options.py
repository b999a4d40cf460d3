"""Options of one call that do not affect its result."""

import re
import sys
from collections.abc import Mapping
from typing import Any, TypedDict

from quantd.calls.progress import Wanted
from quantd.engines.engine import Cancellation, How
from quantd.errors import Invalid
from quantd.options import QuantizeKeywords, refuse_unknown
from quantd.values import number, shown
from quantd.words import PRIORITIES, Priority, Side

# The longest timeout of a call, in seconds.
YEAR = 365 * 24 * 3600.0

# The format of W3C Trace Context: version, trace id, parent id, flags, and
# additions of later versions, in characters that gRPC accepts.
_TRACE = re.compile(
  r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[!-~]*)?"
)
_LONGEST_TRACE = 256


class CallOptions(TypedDict, total=False):
  """Arguments that every call accepts.

  Attributes:
    timeout: Limit in seconds, including retries. None uses the connection's
      deadline.
    cancel: Cancels the call from another thread.
    progress: True shows a bar if tqdm is installed. A function is called with
      the bytes of the input that are done and the total. One thread at a time
      calls it and waits for it. If it raises, the call is cancelled.
    traceparent: The trace that the call belongs to, as in W3C Trace Context,
      "00-...-...-01". Servers log its ids. None uses the current span, if the
      program uses OpenTelemetry.
    priority: "high", "normal" or "low": the order of waiting calls. "high"
      needs a token that allows it, and otherwise counts as "normal". "low"
      waits for all others, but not forever.
  """

  timeout: float | None
  cancel: Cancellation | None
  progress: Wanted
  traceparent: str | None
  priority: Priority


class QuantizeCall(QuantizeKeywords, CallOptions, total=False):
  """Arguments of `quantize`: options of the request and of the call."""


class DecodeKeywords(CallOptions, total=False):
  """Arguments of `dequantize` that its overloads share."""

  usage: Side | None
  rotated: bool


def split(
  function: str, keywords: QuantizeCall
) -> tuple[CallOptions, QuantizeKeywords]:
  """Separates the options of the call from those of the request."""
  refuse_unknown(function, keywords, QuantizeCall)
  call, asked = CallOptions(), QuantizeKeywords()
  for name, value in keywords.items():
    part = call if name in CallOptions.__annotations__ else asked
    part[name] = value  # type: ignore[literal-required]
  return call, asked


def checked(function: str, call: CallOptions) -> How:
  """Returns the checked options of a call, without `progress`."""
  refuse_unknown(function, call, CallOptions)
  timeout = call.get("timeout")
  if timeout is not None:
    # Converted, because a deadline in numpy's fp32 would be minutes off.
    timeout = number("timeout", timeout)
    if not 0 < timeout <= YEAR:
      expected = "seconds above 0, up to a year"
      raise Invalid.of("timeout", expected, shown(timeout))
  cancel = call.get("cancel")
  check_cancel(cancel)
  trace = call.get("traceparent")
  if trace is None:
    trace = _current_trace(sys.modules)
  elif not _is_trace(trace):
    expected = "a W3C Trace Context value: 00-<32 hex digits>-<16>-<2>"
    raise Invalid.of("traceparent", expected, shown(trace))
  priority = call.get("priority", "normal")
  if not isinstance(priority, str) or priority not in PRIORITIES:
    raise Invalid.of("priority", " or ".join(PRIORITIES), shown(priority))
  return How(timeout, cancel, None, trace, priority)


def _current_trace(modules: Mapping[str, Any]) -> str | None:
  """Returns OpenTelemetry's current span, if the program imported it."""
  telemetry = modules.get("opentelemetry.trace")
  if telemetry is None:
    return None
  span = telemetry.get_current_span().get_span_context()
  if not span.is_valid:
    return None
  return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def check_cancel(cancel: Any) -> None:
  """Refuses other types than Cancellation, such as threading.Event."""
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
