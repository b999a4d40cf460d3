"""Puts together what came of the bands of a call."""

import threading
from typing import Any

import numpy as np

from quantd import quantd_pb2 as pb
from quantd.engines import outputs
from quantd.engines.bands.amaxes import raise_to
from quantd.engines.bands.cutting import Band, Banded
from quantd.engines.bands.places import Slab, part_of, slab_of
from quantd.engines.engine import Into, Reply
from quantd.engines.messages import INTERNAL, writable
from quantd.errors import from_status
from quantd.options import check_echo
from quantd.tensors.geometry import Spec
from quantd.words import DTYPES


def parts_of(
  request: Any, answer: Any, reply: Reply
) -> dict[int, memoryview]:
  """The parts of a band by the numbers of their kinds.

  Raises:
    quantd.Error: They are not those that were asked for.
  """
  found = {
    ref.kind: part
    for ref, part in zip(answer.tensors, reply.parts, strict=True)
  }
  expected = {
    outputs.number_of(spec.kind): spec.size
    for spec in outputs.specs_of(request) or ()
  }
  if {kind: part.nbytes for kind, part in found.items()} != expected:
    text = "the reply does not have the parts that were asked for"
    raise from_status(
      INTERNAL, text, request_id=answer.request_id, attempts=reply.attempts
    )
  return found


class Join:
  """The result of a call in bands. Thread-safe until `take`.

  Tensors of rows lie together: a band's call writes them where they belong.
  What lies in strips, as columnwise codes do, is copied once more, by the
  thread that made the call.
  """

  def __init__(self, whole: Banded) -> None:
    """Finds memory for all."""
    self._whole = whole
    request = whole.request
    quantize = isinstance(request, pb.QuantizeRequest)
    self._options = request.options if quantize else None
    self._dtype = DTYPES.word(request.tensor.dtype or pb.DTYPE_F32)
    self._lock = threading.Lock()
    self._report = pb.Report()
    self._devices: list[str] = []
    self._request_id = ""
    self._transport = ""
    self._attempts = 0
    self._streamed = False
    self._targets: list[memoryview] = []
    for spec in whole.outputs:
      kind = outputs.number_of(spec.kind)
      into = whole.asked.into
      if kind in into:
        target = writable(kind, spec.size, into)
      else:
        target = np.empty(spec.size, np.uint8).data
      if spec.kind.endswith("_scale") or self._part(spec) == "maxima":
        # Padding that no band has, and what is raised.
        np.frombuffer(target, np.uint8)[:] = 0
      self._targets.append(target)

  def _part(self, spec: Spec) -> str:
    return part_of(spec.kind, self._options, self._dtype)

  def _slab(self, spec: Spec, band: Band) -> Slab:
    whole = self._whole
    return slab_of(
      spec, self._options, self._dtype, whole.rows, whole.cols, *band
    )

  def places(self, band: Band) -> Into:
    """Where the call of a band shall write."""
    found = {}
    for spec, target in zip(self._whole.outputs, self._targets, strict=True):
      if self._part(spec) != "slab":
        continue
      slab = self._slab(spec, band)
      if slab.together:
        number = outputs.number_of(spec.kind)
        found[number] = slab.in_whole(target).reshape(-1).data
    return found

  def add(self, band: Band, request: Any, reply: Reply) -> None:
    """Takes what a band brought.

    Raises:
      quantd.Unimplemented: By a server that does not know an option of it.
      quantd.Error: It is not what was asked for.
    """
    answer = outputs.REPLIES[self._whole.asked.method].FromString(reply.header)
    if isinstance(request, pb.QuantizeRequest):
      check_echo(request.options, answer.options)
    parts = parts_of(request, answer, reply)
    raised = []
    for spec, target in zip(self._whole.outputs, self._targets, strict=True):
      part = parts[outputs.number_of(spec.kind)]
      kind = self._part(spec)
      if kind != "slab":
        raised.append((spec, kind, part, target))
        continue
      slab = self._slab(spec, band)
      if not slab.together:
        slab.put(part, target)
    with self._lock:
      for spec, kind, part, target in raised:
        if kind == "same":
          target[:] = part
          continue
        whole = np.frombuffer(target, np.float32)
        lines = whole.size > 1 and spec.kind.startswith("rowwise")
        raise_to(
          whole, band.row if lines else 0, np.frombuffer(part, np.float32)
        )
      self._add_report(answer, reply)

  def _add_report(self, answer: Any, reply: Reply) -> None:
    report = self._report
    report.saw_nan |= answer.report.saw_nan
    report.saw_inf |= answer.report.saw_inf
    # The bands have one global scale.
    report.replaced_globals = max(
      report.replaced_globals, answer.report.replaced_globals
    )
    if answer.report.device not in self._devices:
      self._devices.append(answer.report.device)
    self._request_id = answer.request_id
    self._transport = reply.transport
    self._attempts += reply.attempts
    self._streamed |= reply.streamed

  def take(self, sent: int) -> Reply:
    """When all were added; `sent`: calls that were made beside those."""
    whole = self._whole
    self._report.device = ", ".join(self._devices)
    answer = outputs.REPLIES[whole.asked.method](
      tensors=outputs.refs_of(outputs.laid_out(whole.outputs)),
      tensor=whole.request.tensor,
      options=whole.request.options,
      report=self._report,
      request_id=self._request_id,
    )
    parts = [
      target
      if outputs.number_of(spec.kind) in whole.asked.into
      else target.toreadonly()
      for spec, target in zip(whole.outputs, self._targets, strict=True)
    ]
    return Reply(
      answer.SerializeToString(),
      parts,
      self._attempts + sent,
      self._transport,
      len(whole.bands),
      self._streamed,
    )
