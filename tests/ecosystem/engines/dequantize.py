"""Replaces an engine's kernels: decodes a layer's plain weights from the
parameters that the engine's own loader has filled."""

import hashlib
import re

import torch

_FP4 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6])
_FP4 = torch.cat((_FP4, -_FP4))
# Elements of a row that share a scale of this type. Other scales are of square
# blocks.
_GROUP = {torch.uint8: 32, torch.float8_e4m3fn: 16}
_SQUARE = 128
_PACKED = (torch.uint8, torch.int8, torch.float8_e4m3fn)


def _values(weight):
    if weight.dtype == torch.float8_e4m3fn:
        return weight.float()
    codes = weight.view(torch.uint8).long()
    return torch.stack((_FP4[codes & 15], _FP4[codes >> 4]), -1).flatten(-2)


def _each(scales, experts):
    """Returns the scale that all members of a fused layer share, for each expert."""
    scales = scales.float()
    if scales.dim() > experts:
        if not (scales == scales[..., :1]).all():
            raise ValueError(f"fused members have their own scales: {scales}")
        scales = scales[..., 0]
    return scales.reshape(scales.shape + (1, 1))


def _spread(scales, shape):
    """Expands scales of groups or blocks to one for each element."""
    group = _GROUP.get(scales.dtype, _SQUARE)
    scales = torch.exp2(scales.float() - 127) if scales.dtype == torch.uint8 \
        else scales.float()
    for axis in (-2, -1):
        if scales.shape[axis] != shape[axis]:
            times = shape[axis] if scales.shape[axis] == 1 else group
            scales = scales.repeat_interleave(times, axis)
            scales = scales.narrow(axis, 0, shape[axis])
    return scales


def plain(layer, prefix=""):
    """Returns the weights of a linear layer, or of experts under a prefix, as
    bf16, or None if they are bf16 already. Removes the layer's other parts."""
    parts = {name[len(prefix):]: value.data
             for name, value in layer.named_parameters(recurse=False)
             if name.startswith(prefix + "weight")}
    weight = parts.get("weight_packed", parts.get("weight"))
    if weight is None or weight.dtype not in _PACKED:
        return None
    experts = weight.dim() - 2
    values = _values(weight)
    scales = parts.get("weight_scale", parts.get("weight_scale_inv"))
    if scales.dim() == weight.dim():
        scales = _spread(scales, values.shape)
    else:
        scales = _each(scales, experts)
    # Like engines, multiplies both scales first.
    if "weight_global_scale" in parts:
        scales = scales * (1 / _each(parts["weight_global_scale"], experts))
    if "weight_scale_2" in parts:
        scales = scales * _each(parts["weight_scale_2"], experts)
    values = values * scales
    for name in list(dict(layer.named_parameters(recurse=False))):
        if name.startswith(prefix) and not name.endswith("bias"):
            delattr(layer, name)
    return torch.nn.Parameter(values.to(torch.bfloat16), requires_grad=False)


def checksums(model):
    """Returns a hash of each parameter's values, except scales of the KV
    cache, which engines create for every quantized model."""
    return {name: hashlib.sha1(
        weight.data.double().contiguous().numpy()).hexdigest()
        for name, weight in model.named_parameters()
        if not re.search(r"attn(_mha|_mqa)?\.(q|k|v|prob)_(scale|zero_point)$",
                         name)}
