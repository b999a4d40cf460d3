"""Quantizes with ModelOpt 0.47: calibrates layers by mtq.quantize, and packs
weights by the function that export_hf_checkpoint uses."""

import contextlib
import io
import warnings

import torch

warnings.filterwarnings("ignore")

import modelopt.torch.quantization as mtq
from modelopt.torch.export.unified_export_hf import _export_quantized_weight
from modelopt.torch.quantization import qtensor

from libraries.packed import Packed

PROFILE = "modelopt@0.47"
PACKAGES = ["nvidia-modelopt", "transformers", "torch"]
DTYPES = ["bf16", "f16", "f32"]
SCALE_LAYOUT = "linear"
CONFIGS = {
    "nvfp4": mtq.W4A16_NVFP4_CFG,
    "fp8_e4m3": mtq.FP8_DEFAULT_CFG,
    "fp8_channel_e4m3": mtq.FP8_PER_CHANNEL_PER_TOKEN_CFG,
    "fp8_block_2d_e4m3": mtq.FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG,
    "mxfp8_e4m3": mtq.MXFP8_DEFAULT_CFG,
    "mxfp4": mtq.MXFP4_DEFAULT_CFG,
}
FORMATS = list(CONFIGS)
DIFFERS_ON_CUDA = ["nvfp4", "fp8_e4m3", "fp8_channel_e4m3",
                   "fp8_block_2d_e4m3"]


def _decoder(format, weight, codes, scale, scale_2):
    """Returns a decoder by ModelOpt's tensor class of the format."""
    shape, dtype = weight.shape, weight.dtype
    if format == "nvfp4":
        held = qtensor.NVFP4QTensor(shape, dtype, codes)
        return lambda to: held.dequantize(
            to, scale=scale, double_scale=scale_2, block_sizes={-1: 16})
    if format == "mxfp4":
        held = qtensor.MXFP4QTensor(shape, dtype, codes)
        return lambda to: held.dequantize(
            to, scale=scale, block_sizes={-1: 32})
    if format == "mxfp8_e4m3":
        held = qtensor.MXFP8QTensor(shape, dtype, codes)
        return lambda to: held.dequantize(to, scale=scale)
    held = qtensor.FP8QTensor(shape, dtype, codes)
    if format == "fp8_block_2d_e4m3":
        return lambda to: held.dequantize(
            to, scale=scale, block_sizes={-1: 128, -2: 128})
    if format == "fp8_channel_e4m3":
        return lambda to: held.dequantize(to, scale=scale[:, None])
    return lambda to: held.dequantize(to, scale=scale)


def pack(weights, format):
    layers = torch.nn.ModuleDict()
    for index, weight in enumerate(weights.values()):
        rows, columns = weight.shape
        layer = torch.nn.Linear(columns, rows, bias=False, dtype=weight.dtype)
        layer.weight.data = weight.clone()
        layers[str(index)] = layer
    with contextlib.redirect_stdout(io.StringIO()):
        mtq.quantize(layers, CONFIGS[format])
    packed = {}
    for (name, weight), layer in zip(weights.items(), layers.values()):
        # ModelOpt's export of channels mistakes a single row for a whole
        # tensor, and fails.
        if format == "fp8_channel_e4m3" and weight.shape[0] == 1:
            continue
        _export_quantized_weight(layer, weight.dtype)
        scale = layer.weight_scale
        if format == "fp8_block_2d_e4m3":
            rows, columns = (-(-size // 128) for size in weight.shape)
            scale = scale.reshape(rows, columns)
        scale_2 = getattr(layer, "weight_scale_2", None)
        codes = layer.weight.data
        packed[name] = Packed(
            codes, scale, scale_2,
            _decoder(format, weight, codes, scale, scale_2))
    return packed
