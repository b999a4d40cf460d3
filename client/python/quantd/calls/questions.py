"""Calls that only ask a server, and send no tensor."""

from collections.abc import Sequence
from typing import Any, Unpack

from google.protobuf.message import DecodeError, Message

from quantd import options
from quantd import quantd_pb2 as pb
from quantd.calls import requests
from quantd.calls.call_options import CallOptions, QuantizeCall, split
from quantd.calls.link import Link
from quantd.engines.retry import INTERNAL
from quantd.errors import from_status
from quantd.results import PartPlan, Plan, ServerInfo
from quantd.words import DTYPES, FLOATS, KINDS, DType, Format


class Questions(Link):
  """The calls that compute nothing."""

  def plan(
    self,
    shape: Sequence[int],
    format: Format = "nvfp4",
    *,
    dtype: DType = "bf16",
    flatten_axis: int = -1,
    **keywords: Unpack[QuantizeCall],
  ) -> Plan:
    """Describes what `quantize` would return: every part, and its size.

    Args:
      shape: The shape of the tensor.
      format: As for `quantize`.
      dtype: The type of the tensor.
      flatten_axis: As for `quantize`.
      **keywords: As for `quantize`.

    Returns:
      The parts and the sizes in bytes.

    Example:
      >>> q.plan((4096, 4096), "nvfp4").parts["rowwise_data"].shape
      (4096, 2048)
    """
    call, asked = split("plan", keywords)
    request = pb.QuantizeRequest(
      tensor=requests.tensor_message(
        DTYPES.parse("dtype", dtype, FLOATS), shape, flatten_axis
      ),
      options=options.quantize_message(format, asked),
    )
    answer = self._ask("DescribeQuantize", request, call)
    return Plan(
      parts={KINDS.word(ref.kind): PartPlan.of(ref) for ref in answer.tensors},
      input_bytes=answer.input_bytes,
      output_bytes=answer.output_bytes,
      scratch_bytes=answer.scratch_bytes,
    )

  def info(self, **call: Unpack[CallOptions]) -> ServerInfo:
    """Returns the version, the formats, the devices and the limits of a server.

    Args:
      **call: As for `quantize`.

    Example:
      >>> "nvfp4" in q.info().formats
      True
    """
    return ServerInfo.of(
      self._ask("GetServerInfo", pb.GetServerInfoRequest(), call)
    )

  def _ask(self, method: str, request: Message, call: CallOptions) -> Any:
    """Makes a call without a tensor, and returns the message of the reply."""
    reply = self._call(method, request.SerializeToString(), [], {}, call)
    try:
      return getattr(pb, f"{method}Reply").FromString(reply.header)
    except DecodeError as wrong:
      text = f"the reply is not a valid quantd.v1 message: {wrong}"
      raise from_status(INTERNAL, text, attempts=reply.attempts) from None
