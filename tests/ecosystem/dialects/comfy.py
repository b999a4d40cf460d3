"""ComfyUI: comfy-kitchen's layout writes the same tensors, and loads and
decodes ours. ComfyUI itself was not run."""

import torch
from comfy_kitchen.tensor import QuantizedTensor
from comfy_kitchen.tensor import TensorCoreNVFP4Layout as Layout

import directory
from checkpoints import back, convert, row

DIALECT = "comfy"


def _written(weights):
    """By the library, under the names that its layout says."""
    tensors = {}
    for name, weight in weights.items():
        codes, parameters = Layout.quantize(weight)
        for suffix, tensor in Layout.state_dict_tensors(
                codes, parameters).items():
            tensors[name + suffix] = tensor
    return tensors


def _decoded(tensors, name, shape):
    parameters = Layout.Params(
        scale=tensors[f"{name}_scale_2"], orig_dtype=torch.bfloat16,
        orig_shape=tuple(shape), block_scale=tensors[f"{name}_scale"])
    held = QuantizedTensor(tensors[name], "TensorCoreNVFP4Layout", parameters)
    return held.dequantize()


def checks(models, folder):
    for name in ("llama", "minilm"):
        source = directory.tensors(models[name])
        mine = convert(models[name], folder, DIALECT, "nvfp4")
        tensors = directory.tensors(mine)
        quantized = {n: source[n] for n in source if f"{n}_scale_2" in tensors}
        ours = {n: t for n, t in tensors.items()
                if n.removesuffix("_2").removesuffix("_scale") in quantized}
        lines, differing, compared = directory.differing_tensors(
            ours, _written(quantized))
        lines += [f"{n}: {c} bytes" for n, c in differing.items()]
        yield row(name, "nvfp4", "its tensors and ours",
                  compared and not lines, bytes=compared,
                  differing=sum(differing.values()), lines=lines)
        plain = directory.tensors(back(mine, folder))
        values = wrong = 0
        for tensor, weight in quantized.items():
            theirs = _decoded(tensors, tensor, weight.shape)
            values += theirs.numel()
            wrong += directory.differing_values(plain[tensor], theirs)
        yield row(name, "nvfp4", "its decoder and ours", values and not wrong,
                  differing=wrong, values=values)
