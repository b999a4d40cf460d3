"""The amax that all bands of a tensor share: where it comes from."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from quantd import quantd_pb2 as pb
from quantd.tensors import geometry
from quantd.tensors.arrays import Array
from quantd.words import FORMATS

_OF_USAGE = {"rowwise": pb.USAGE_ROWWISE, "columnwise": pb.USAGE_COLUMNWISE}
SIDES = tuple(_OF_USAGE)


def has_copy(o: pb.QuantizeOptions, side: str) -> bool:
  """Whether that copy is made."""
  # USAGE_NONE has neither bit.
  return bool(o.usage & _OF_USAGE[side])


def format_of(o: pb.QuantizeOptions) -> geometry.Format:
  """That of the options; KeyError where there is none."""
  return geometry.FORMATS_BY_NAME[FORMATS.word(o.format)]


def of_lines(o: pb.QuantizeOptions) -> bool:
  """Whether a copy has an amax for each of its lines."""
  return geometry.amax_of_lines(format_of(o), o)


def rotated(o: pb.QuantizeOptions, side: str) -> bool:
  """Whether that copy is rotated first."""
  return o.HasField("rht") and bool(getattr(o.rht, side))


def estimates(o: pb.QuantizeOptions) -> bool:
  """Whether the amax of rotated copies is estimated."""
  return o.amax_estimation_scale != 0


def may_estimate(o: pb.QuantizeOptions) -> bool:
  """Whether a server that estimates by default does so here."""
  return (
    o.format == pb.FORMAT_NVFP4
    and not o.HasField("amax_estimation_scale")
    and _estimable(o)
  )


def estimates_nothing(o: pb.QuantizeOptions) -> bool:
  """Whether an estimate is asked for that would replace no amax: not legal."""
  return estimates(o) and not _estimable(o)


def _estimable(o: pb.QuantizeOptions) -> bool:
  """Whether there is a rotated copy whose amax is not given."""
  return any(
    has_copy(o, side) and rotated(o, side) and not given(o, side)
    for side in SIDES
  )


def given(o: pb.QuantizeOptions, side: str) -> list[float]:
  """What the options give; empty: nothing."""
  message = o.given_amax
  if message.HasField(side):
    return [getattr(message, side)]
  return list(getattr(message, f"{side}_values"))


def keep_rows(o: pb.QuantizeOptions, row: int, rows: int) -> None:
  """Of amaxes that are given for each row leaves those of a band."""
  if of_lines(o) and (lines := given(o, "rowwise")):
    o.given_amax.ClearField("rowwise")
    o.given_amax.ClearField("rowwise_values")
    _put(o.given_amax, "rowwise", lines[row : row + rows])


def _put(message: pb.GivenAmax, side: str, values: list[float]) -> None:
  if len(values) == 1:
    setattr(message, side, values[0])
  else:
    getattr(message, f"{side}_values").extend(values)


class Source(NamedTuple):
  """Where the amax of a copy comes from."""

  # "none", "given", "plain", "rotated" or "lines".
  kind: str
  given: list[float]
  factor: float = 1.0  # of an estimate

  @property
  def computed(self) -> bool:
    """Whether it is found in the tensor."""
    return self.kind not in ("none", "given")


def source_of(o: pb.QuantizeOptions, side: str) -> Source:
  """That of one copy of legal options."""
  f = format_of(o)
  other = SIDES[1 - SIDES.index(side)]
  if not has_copy(o, side) or f.scaling not in ("nvfp4", "tensor", "channel"):
    return Source("none", [])
  if own := given(o, side):
    return Source("given", own)
  if of_lines(o):
    return Source("lines", [])
  if rotated(o, side) and not estimates(o):
    return Source("rotated", [])
  factor = o.amax_estimation_scale if rotated(o, side) else 1.0
  # What was given for a direction that is not rotated is max |x|.
  if not rotated(o, other) and (others := given(o, other)):
    return Source("given", others, factor)
  return Source("plain", [], factor)


def needed(o: pb.QuantizeOptions) -> bool:
  """Whether bands need an amax that is not given and not of one band alone."""
  if o.scale:
    return False
  for side in SIDES:
    source = source_of(o, side)
    # A row is all in one band.
    if source.computed and (side == "columnwise" or source.kind != "lines"):
      return True
  return False


def kind_of(o: pb.QuantizeOptions, side: str) -> str:
  """The kind of RhtAmax that is the amax of a copy, or what it is made of."""
  turned = rotated(o, side) and not estimates(o)
  return f"{side}_rht_amax" if turned else f"{side}_amax"


def question(o: pb.QuantizeOptions) -> pb.RhtAmaxOptions:
  """Asks for those of all copies."""
  asked = pb.RhtAmaxOptions(non_finite=o.non_finite)
  for side in SIDES:
    if has_copy(o, side):
      setattr(asked, kind_of(o, side).removesuffix("_amax"), True)
  if asked.rowwise_rht or asked.columnwise_rht:
    asked.rht.dimension = o.rht.dimension
    if o.rht.HasField("sign_mask"):
      asked.rht.sign_mask = o.rht.sign_mask
  asked.domain = pb.AMAX_DOMAIN_ROW if of_lines(o) else pb.AMAX_DOMAIN_TENSOR
  return asked


class Found:
  """The amaxes of a whole tensor, raised by what its bands add."""

  def __init__(self, o: pb.QuantizeOptions, rows: int, cols: int) -> None:
    """Begins with zeros."""
    self._options = o
    lines = {"rowwise": rows, "columnwise": cols}
    self.values: dict[str, Array] = {
      side: np.zeros(lines[side] if of_lines(o) else 1, np.float32)
      for side in SIDES
      if has_copy(o, side)
    }

  def add(self, row: int, maxima: Mapping[str, Array]) -> None:
    """Takes those of a band that begins at this row."""
    for side, values in maxima.items():
      whole = self.values[side]
      first = row if side == "rowwise" and whole.size > 1 else 0
      raise_to(whole, first, values)

  def counts(self, rows: int) -> dict[str, int]:
    """How many a band of so many rows adds."""
    return {
      side: rows if side == "rowwise" and whole.size > 1 else whole.size
      for side, whole in self.values.items()
    }

  def settle(self) -> None:
    """Makes of them what is given: estimates, and what the caller gave."""
    for side, values in self.values.items():
      source = source_of(self._options, side)
      if source.kind == "given":
        values = np.array(source.given, np.float32)
      self.values[side] = values * np.float32(source.factor)

  def given_to(self, row: int, rows: int) -> pb.GivenAmax:
    """What a band of so many rows from this one is told; of settled ones."""
    message = pb.GivenAmax()
    for side, values in self.values.items():
      if side == "rowwise" and values.size > 1:
        values = values[row : row + rows]
      _put(message, side, values.tolist())
    return message

  @property
  def finite(self) -> bool:
    """Whether a request can give them."""
    return all(bool(np.isfinite(v).all()) for v in self.values.values())


def raise_to(whole: Array, first: int, values: Array) -> None:
  """Raises what lies there; NaN does not vanish."""
  place = whole[first : first + values.size]
  np.maximum(place, values[: place.size], out=place)
