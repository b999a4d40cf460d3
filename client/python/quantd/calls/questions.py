"""What servers say without a tensor."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quantd import options
from quantd import quantd_pb2 as pb
from quantd.calls import requests
from quantd.calls.call_options import CallOptions
from quantd.calls.link import Link
from quantd.engines.engine import Cancellation
from quantd.options import QuantizeKeywords
from quantd.results import PartPlan, Plan, ServerInfo
from quantd.words import DTYPES, FLOATS, KINDS, Word

if TYPE_CHECKING:
  from typing import Unpack


class Questions(Link):
  """Calls that compute nothing."""

  def plan(
    self,
    shape: Sequence[int],
    format: Word = "nvfp4",
    *,
    dtype: str = "bf16",
    flatten_axis: int = -1,
    timeout: float | None = None,
    cancel: Cancellation | None = None,
    traceparent: str | None = None,
    priority: str = "normal",
    **keywords: "Unpack[QuantizeKeywords]",
  ) -> Plan:
    """What `quantize` would give: every part, and the memory. Computes nothing.

    Args:
      shape: Of the tensor.
      format: As for `quantize`.
      dtype: Its type.
      flatten_axis: As for `quantize`.
      timeout: Seconds.
      cancel: Stops the call.
      traceparent: As for `quantize`.
      priority: As for `quantize`.
      **keywords: Options, as for `quantize`.

    Returns:
      Parts and bytes.

    Example:
      >>> q.plan((4096, 4096), "nvfp4").parts["rowwise_data"].shape
      (4096, 2048)
    """
    asked = options.quantize_message(format, keywords)
    request = pb.QuantizeRequest(
      tensor=requests.tensor_message(
        DTYPES.parse("dtype", dtype, FLOATS), shape, flatten_axis
      ),
      options=asked,
    )
    header = request.SerializeToString()
    call = CallOptions(
      timeout, cancel, traceparent=traceparent, priority=priority
    )
    reply = self._call("DescribeQuantize", header, [], {}, call)
    answer = pb.DescribeQuantizeReply.FromString(reply.header)
    return Plan(
      parts={KINDS.word(ref.kind): PartPlan.of(ref) for ref in answer.tensors},
      input_bytes=answer.input_bytes,
      output_bytes=answer.output_bytes,
      scratch_bytes=answer.scratch_bytes,
    )

  def info(
    self,
    *,
    timeout: float | None = None,
    cancel: Cancellation | None = None,
    traceparent: str | None = None,
    priority: str = "normal",
  ) -> ServerInfo:
    """What a server is, can do and allows.

    Example:
      >>> "nvfp4" in q.info().formats
      True
    """
    call = CallOptions(
      timeout, cancel, traceparent=traceparent, priority=priority
    )
    reply = self._call("GetServerInfo", b"", [], {}, call)
    return ServerInfo.of(pb.GetServerInfoReply.FromString(reply.header))
