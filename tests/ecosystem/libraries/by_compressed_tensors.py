"""Quantizes with compressed-tensors 0.20 like llm-compressor's model_free_ptq:
calibrates a linear layer by its observer and compresses it. On a GPU the
library uses its Triton kernels."""

import copy

import torch
from compressed_tensors.compressors import compress_module, decompress_module
from compressed_tensors.quantization import preset_name_to_scheme
from llmcompressor.entrypoints.model_free.lifecycle import (
    calibrate_weight,
    initialize_quantized_linear,
)

from libraries.packed import Packed

PROFILE = "compressed-tensors@0.20"
PACKAGES = ["compressed-tensors", "llmcompressor", "transformers", "torch"]
DTYPES = ["bf16", "f16", "f32"]
SCALE_LAYOUT = "linear"
SCHEMES = {
    "nvfp4": "NVFP4A16",
    "fp8_e4m3": "FP8",
    "fp8_channel_e4m3": "FP8_DYNAMIC",
    "fp8_block_2d_e4m3": "FP8_BLOCK",
    "mxfp8_e4m3": "MXFP8A16",
    "mxfp4": "MXFP4A16",
}
FORMATS = list(SCHEMES)
DIFFERS_ON_CUDA = ["fp8_e4m3", "fp8_channel_e4m3", "fp8_block_2d_e4m3"]
# These formats decode to bf16; others decode to the type of the scales.
PACKED = ["nvfp4", "mxfp8_e4m3", "mxfp4"]


def _decoded(module):
    module = copy.deepcopy(module)
    decompress_module(module)
    return module.weight.detach()


def pack(weights, format):
    packed = {}
    for name, weight in weights.items():
        scheme = preset_name_to_scheme(SCHEMES[format], ["Linear"])
        module = initialize_quantized_linear(
            weight, scheme, weight.device)
        calibrate_weight(module)
        compress_module(module)
        state = module.state_dict()
        packed[name] = Packed(
            codes=state.get("weight_packed", state.get("weight")),
            scales=state["weight_scale"],
            stored_global=state.get("weight_global_scale"),
            decode=lambda dtype, module=module: _decoded(module),
            decodes_to=(torch.bfloat16 if format in PACKED else weight.dtype,),
        )
    return packed
