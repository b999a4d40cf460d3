"""Quantizes with torchao 0.18: its prototype of MX formats, in eager mode."""

import logging

import torch

logging.disable(logging.WARNING)

from torchao.prototype.mx_formats.mx_tensor import MXTensor
from torchao.prototype.mx_formats.nvfp4_tensor import (
    NVFP4Tensor,
    per_tensor_amax_to_scale,
)

from libraries.packed import Packed

PROFILE = "torchao@0.18"
PACKAGES = ["torchao", "torch"]
DTYPES = ["bf16", "f32"]
SCALE_LAYOUT = "linear"
FORMATS = ["nvfp4", "mxfp8_e4m3", "mxfp4"]
DIFFERS_ON_CUDA = ["nvfp4"]
ELEMENTS = {
    "mxfp8_e4m3": torch.float8_e4m3fn,
    "mxfp4": torch.float4_e2m1fn_x2,
}


def _pack(weight, format):
    if format == "nvfp4":
        scale = per_tensor_amax_to_scale(weight.abs().max())
        made = NVFP4Tensor.to_nvfp4(weight, per_tensor_scale=scale)
    else:
        made = MXTensor.to_mx(weight, ELEMENTS[format])
        scale = None
    packed = Packed(made.qdata, made.scale, scale, made.dequantize)
    # torchao multiplies by 1 / scale, and zero times infinity is NaN.
    packed.overflowed = scale is not None and bool((1 / scale).isinf())
    return packed


def pack(weights, format):
    return {name: _pack(weight, format) for name, weight in weights.items()}
