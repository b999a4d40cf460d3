"""Reduces amaxes over several processes."""

from typing import Any

import numpy as np

from quantd.calls.connection import Connection
from quantd.errors import Invalid
from quantd.options import QuantizeKeywords
from quantd.tensors.elements import Array
from quantd.values import shown


def checked(reduction: Any) -> Any:
  """Accepts a function, a group of torch.distributed or None."""
  group = callable(getattr(reduction, "rank", None))
  if reduction is None or callable(reduction) or group:
    return reduction
  expected = "a function, a group of torch.distributed or None"
  raise Invalid.of("amax_reduction", expected, shown(reduction))


def give_amaxes(
  x: Any,
  connection: Connection,
  scaling: str,
  options: QuantizeKeywords,
  call: dict[str, Any],
  reduction: Any,
) -> None:
  """Reduces the amaxes of x and sets them in `options` as `given_amax`."""
  usage = options["usage"]
  sides = [s for s in ("rowwise", "columnwise") if usage in (s, "both")]
  if scaling not in ("nvfp4", "tensor", "channel") or not sides:
    return
  lines = scaling == "channel" or options.get("row_scaled")
  rht = options.get("rht")
  turned = [side for side in sides if rht in (side, "both")]
  estimate = np.float32(options.get("amax_estimation_scale") or 0)
  alike = (
    "rht_dimension",
    "sign_mask",
    "non_finite",
    "splits",
    "partial_splits",
  )
  same: Any = {
    name: value
    for name, value in options.items()
    if name in alike and value is not None
  }
  found = connection.amax(
    x,
    rht=False if estimate else rht or False,
    domain="row" if lines else "tensor",
    **{**same, **call, "like": "numpy"},
  )
  own = {
    side: getattr(found, f"{side}_rht")
    if side in turned and not estimate
    else getattr(found, side)
    for side in sides
  }
  given = _largest(own, reduction)
  if estimate and all(side in given for side in turned):
    for side in turned:
      # Multiplied in fp32, as the server computes estimates.
      given[side] = given[side] * estimate
    options.pop("amax_estimation_scale")
  if given:
    options["given_amax"] = {side: v.tolist() for side, v in given.items()}


def _largest(own: dict[str, Array], reduction: Any) -> dict[str, Array]:
  """Returns the reduced amaxes, without copies that have a NaN or Inf."""
  flat = np.concatenate(list(own.values())).astype(np.float32)
  returned = _reduced(flat.copy(), reduction)
  try:
    reduced = np.asarray(returned)
    if reduced.dtype.kind not in "fiu":
      raise TypeError("not numbers")
    reduced = reduced.astype(np.float32).reshape(-1)
  except (TypeError, ValueError, RuntimeError):
    reduced = np.empty(0, np.float32)
  if reduced.size != flat.size:
    expected = f"a function that returns {flat.size} amaxes"
    raise Invalid.of("amax_reduction", expected, shown(returned))
  given = {}
  at = 0
  for side, values in own.items():
    largest = reduced[at : at + values.size]
    at += values.size
    finite = np.isfinite(largest)
    if finite.all():
      given[side] = largest
    elif np.isfinite(values[~finite]).any():
      raise Invalid.of(
        "amax_reduction", "finite amaxes", "NaN or Inf from another process"
      )
    elif (largest[finite] != values[finite]).any():
      # Either all amaxes of a copy are given, or none of them.
      raise Invalid.of(
        "amax_reduction",
        "amaxes that are all finite, or no larger elsewhere than here",
        "NaN or Inf in one group or line, and a larger amax in another",
      )
    # Otherwise this copy's amaxes are not given, and the server computes the
    # same NaN or Inf again.
  return given


def _reduced(amaxes: Array, reduction: Any) -> Any:
  if callable(reduction):
    return reduction(amaxes)
  try:
    import torch
    import torch.distributed
  except ImportError:
    raise Invalid.of(
      "amax_reduction", "a function, because PyTorch is not installed", "none"
    ) from None
  distributed = torch.distributed
  if not distributed.is_available() or not distributed.is_initialized():
    raise Invalid.of(
      "amax_reduction",
      "a function, or torch.distributed after init_process_group",
      "no process group",
    )
  tensor = torch.from_numpy(amaxes)
  distributed.all_reduce(tensor, distributed.ReduceOp.MAX, reduction)
  return tensor.numpy()
