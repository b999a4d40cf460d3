"""Quantizes with comfy-kitchen 0.2.40, in the layout that ComfyUI saves. Uses
the backend "eager" even on a GPU, although the library has kernels for one."""

import comfy_kitchen
from comfy_kitchen.tensor import TensorCoreNVFP4Layout as Layout

from libraries.packed import Packed

PROFILE = "comfy@0.2.40"
PACKAGES = ["comfy-kitchen", "torch"]
DTYPES = ["bf16", "f16", "f32"]
SCALE_LAYOUT = "swizzled"
FORMATS = ["nvfp4"]
DIFFERS_ON_CUDA = ["nvfp4"]


def _pack(weight):
    codes, made = Layout.quantize(weight)
    rows, columns = weight.shape

    def decode(dtype):
        with comfy_kitchen.use_backend("eager"):
            return comfy_kitchen.dequantize_nvfp4(
                codes, made.scale, made.block_scale, dtype)[:rows, :columns]

    return Packed(codes[:rows, :columns // 2], made.block_scale, made.scale,
                  decode)


def pack(weights, format):
    assert format == "nvfp4"
    with comfy_kitchen.use_backend("eager"):
        return {name: _pack(weight) for name, weight in weights.items()}
