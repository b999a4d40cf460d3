"""Meters on the inputs of a model's modules, and on cached keys and values."""

import contextlib
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from quantd.calibration_file import expert_of

__all__ = ["Meter", "Names", "Watch", "numbered", "stacked"]

# Bins of a histogram: 16 for each power of two from 2^-32 to 2^32, indexed by
# the upper bits of fp32. The bins are fixed, so one pass suffices and no values
# are kept.
_SHIFT = 19
_FIRST, _LAST = (127 - 32) << 4, (127 + 32) << 4
# Splits the rest of a name after any prefix: "layers.0" and ".mlp.up_proj".
_NUMBERED = re.compile(r"(?:.*?\.)?([A-Za-z_]+\.\d+)(\..*)")
_MULTIPLY = {"linear", "matmul", "__matmul__", "mm"}


class Meter:
  """Measures the largest magnitude of tensors, and optionally a histogram."""

  def __init__(self, histogram: bool = False) -> None:
    """Creates a meter that has seen no tensor."""
    self._histogram = histogram
    self._largest: Any = None
    self._counts: Any = None

  def add(self, x: Any) -> None:
    """Adds a tensor, without waiting for its device."""
    import torch

    if x.numel() == 0:
      return
    low, high = torch.aminmax(x.detach())
    largest = torch.maximum(-low, high).float()
    if self._largest is not None:
      largest = torch.maximum(self._largest, largest.to(self._largest.device))
    self._largest = largest
    if not self._histogram:
      return
    bits = x.detach().float().abs().reshape(-1).view(torch.int32) >> _SHIFT
    bins = bits.clamp_(_FIRST, _LAST - 1) - _FIRST
    counts = torch.bincount(bins, minlength=_LAST - _FIRST)
    if self._counts is not None:
      counts = counts.to(self._counts.device) + self._counts
    self._counts = counts

  def largest(self) -> float:
    """Returns the largest magnitude; 0 if there were no elements."""
    return 0.0 if self._largest is None else float(self._largest)

  def percentile(self, percent: float) -> float:
    """Returns a magnitude that `percent` % of the elements do not exceed.

    The result is the upper edge of a bin, so it is at most 1/16 too large.
    """
    import torch

    if self._counts is None:
      return 0.0
    total = self._counts.cumsum(0).cpu()
    wanted = percent / 100 * float(total[-1])
    place = int((total.double() < wanted).sum()) + _FIRST + 1
    edge = torch.tensor(place << _SHIFT, dtype=torch.int32).view(torch.float32)
    return min(float(edge), self.largest())


class Watch:
  """Meters for modules. They measure inside `with watch.open()`.

  Attributes:
    inputs: The meter of the inputs of each weight, by checkpoint name.
    kv: The meters of each attention's cached keys and values.
    absent: Why a layer or an attention has no meter, by name.
  """

  def __init__(
    self,
    model: Any,
    wanted: Mapping[str, tuple[int, int]],
    histogram: bool,
  ) -> None:
    """Finds the modules. `wanted` has their weights' rows and columns."""
    self._model = model
    self._histogram = histogram
    self._names = Names(model)
    self._linears: dict[Any, Meter] = {}
    self._stored: dict[Any, str] = {}
    self._stacks: dict[Any, dict[tuple[bool, int], Meter]] = {}
    self.inputs: dict[str, Meter] = {}
    self.kv: dict[str, tuple[Meter, Meter]] = {}
    self.absent: dict[str, str] = {}
    for name, shape in wanted.items():
      meter = self._meter(name, shape)
      if meter is None:
        self.absent[name] = "the loaded model has no module with this name"
      else:
        self.inputs[name] = meter

  def _meter(self, name: str, shape: tuple[int, int]) -> Meter | None:
    module = self._names.linear(name, shape)
    if module is not None:
      self._stored[module] = name
      return self._linears.setdefault(module, Meter(self._histogram))
    stack = self._names.stack(name)
    expert = expert_of(name)
    if stack is None or expert is None:
      return None
    key = (_is_second(expert[2]), expert[1])
    meters = self._stacks.setdefault(stack, {})
    return meters.setdefault(key, Meter(self._histogram))

  def measures(self, module: Any) -> bool:
    """Returns whether the module is measured as a linear layer."""
    return module in self._linears

  @contextlib.contextmanager
  def open(self) -> Iterator[None]:
    """Hooks the modules, and restores the model at the end."""
    handles = []
    before = None
    try:
      for module, meter in self._linears.items():
        handles.append(module.register_forward_pre_hook(_input_hook(meter)))
      for module, meters in self._stacks.items():
        enter, leave = _stack_hooks(module, meters)
        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(leave, always_call=True))
      handles += self._watch_caches()
      # Fused kernels for experts do not show the inputs of single experts.
      if self._stacks and hasattr(self._model, "set_experts_implementation"):
        before = self._model.config._experts_implementation
        self._model.set_experts_implementation("eager")
      yield
    finally:
      for handle in handles:
        handle.remove()
      if before is not None:
        self._model.set_experts_implementation(before)

  def _watch_caches(self) -> Iterator[Any]:
    for name, module in _attentions(self._model):
      if any(child.startswith("kv_") for child, _ in module.named_children()):
        self.absent[name] = "engines cache latents instead of keys and values"
        continue
      meters = (Meter(), Meter())
      self.kv[self._stored_name(name, module)] = meters
      yield module.register_forward_pre_hook(
        _cache_hook(*meters), with_kwargs=True
      )

  def _stored_name(self, name: str, attention: Any) -> str:
    """Returns an attention's checkpoint name, derived from a projection's."""
    for child, module in attention.named_children():
      stored = self._stored.get(module, "")
      if stored.endswith(f".{child}"):
        return stored.removesuffix(f".{child}")
    return name


class Names:
  """Finds modules by their names in checkpoints."""

  def __init__(self, model: Any) -> None:
    """Looks at all modules once."""
    self._modules = dict(model.named_modules())
    self._ends: dict[str, list[Any]] = {}
    self._stacks: dict[str, list[Any]] = {}
    for name, module in self._modules.items():
      if found := _NUMBERED.fullmatch(name):
        self._ends.setdefault(found[1] + found[2], []).append(module)
        if stacked(module):
          self._stacks.setdefault(found[1], []).append(module)

  def linear(self, name: str, shape: tuple[int, int] | None = None) -> Any:
    """Returns the module of this name, or the only one with another prefix."""
    module = self._modules.get(name)
    if module is None and (found := _NUMBERED.fullmatch(name)):
      module = _only(self._ends.get(found[1] + found[2], []))
    weight = getattr(module, "weight", None)
    fits = weight is not None and shape in (None, tuple(weight.shape))
    return module if fits else None

  def stack(self, name: str) -> Any:
    """Returns the module that has all experts of a layer in one parameter.

    Only the layer, such as "layers.0", is compared: in the checkpoint, modules
    inside it may have other names.
    """
    found = _NUMBERED.fullmatch(name)
    return _only(self._stacks.get(found[1], [])) if found else None


def numbered(name: str) -> tuple[str, str]:
  """Splits a module's name at its layer: "model.layers.0" and "mlp.up_proj"."""
  found = _NUMBERED.fullmatch(name)
  return (name[: found.end(1)], found[2][1:]) if found else (name, "")


def _only(modules: list[Any]) -> Any:
  return modules[0] if len(modules) == 1 else None


def stacked(module: Any) -> list[tuple[str, Any]]:
  """Returns the module's parameters that hold all experts of a layer."""
  found = module.named_parameters(recurse=False)
  return [(name, p) for name, p in found if p.dim() == 3]


def _is_second(name: str) -> bool:
  """Returns whether a projection follows the activation of an expert."""
  return "down" in name or name.startswith("w2")


def _input_hook(meter: Meter) -> Any:
  def hook(module: Any, args: tuple[Any, ...]) -> None:
    if args:
      meter.add(args[0])

  return hook


def _stack_hooks(
  module: Any, meters: Mapping[tuple[bool, int], Meter]
) -> tuple[Any, Any]:
  """Hooks that measure the left operand of products with an expert."""
  from torch.overrides import TorchFunctionMode

  class Mode(TorchFunctionMode):  # type: ignore[misc]
    def __torch_function__(
      self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
      if getattr(func, "__name__", "") in _MULTIPLY and len(args) > 1:
        self._look(args[0], args[1])
      return func(*args, **(kwargs or {}))

    def _look(self, x: Any, weight: Any) -> None:
      for name, stack in stacked(module):
        size = stack.stride(0) * stack.element_size()
        offset = weight.data_ptr() - stack.data_ptr()
        if weight.dim() == 2 and 0 <= offset < size * stack.shape[0]:
          meter = meters.get((_is_second(name), offset // size))
          if meter is not None:
            meter.add(x)

  open_modes: list[Mode] = []

  def enter(module: Any, args: Any) -> None:
    open_modes.append(Mode())
    open_modes[-1].__enter__()

  def leave(module: Any, args: Any, output: Any) -> None:
    open_modes.pop().__exit__(None, None, None)

  return enter, leave


def _attentions(model: Any) -> list[tuple[str, Any]]:
  """Returns the innermost modules whose `forward` takes a cache."""
  found = [
    (name, module)
    for name, module in model.named_modules()
    if hasattr(module, "layer_idx") and _cache_word(module)
  ]
  inner = [f"{name}." for name, _ in found]
  return [
    (name, module)
    for name, module in found
    if sum(other.startswith(f"{name}.") for other in inner) == 1
  ]


def _cache_word(module: Any) -> str | None:
  words = inspect.signature(module.forward).parameters
  known = ("past_key_values", "past_key_value")
  return next((word for word in known if word in words), None)


def _cache_hook(keys: Meter, values: Meter) -> Any:
  def hook(module: Any, args: Any, kwargs: Any) -> Any:
    word = _cache_word(module)
    if kwargs.get(word) is not None:
      kwargs = kwargs | {word: _Cache(kwargs[word], keys, values)}
    return args, kwargs

  return hook


class _Cache:
  """Measures keys and values, and is otherwise like the cache that it wraps.

  `isinstance` sees the type of that cache.
  """

  def __init__(self, cache: Any, keys: Meter, values: Meter) -> None:
    self._cache, self._keys, self._values = cache, keys, values

  def update(self, keys: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
    self._keys.add(keys)
    self._values.add(values)
    return self._cache.update(keys, values, *args, **kwargs)

  def __getattr__(self, name: str) -> Any:
    return getattr(self._cache, name)

  @property  # type: ignore[misc]
  def __class__(self) -> Any:
    return type(self._cache)
