"""Checks of ComfyUI's dialect: comfy-kitchen's layout writes the same tensors
as quantctl, and loads and decodes quantctl's. ComfyUI itself is not run."""

import safetensors.torch
import torch
from comfy_kitchen.tensor import QuantizedTensor
from comfy_kitchen.tensor import TensorCoreNVFP4Layout as Layout

import directory
import fused
from checkpoints import back, convert, lint, row
from libraries import by_comfy

DIALECT = "comfy"


def _written(weights):
    """Returns the library's tensors, by the names of its layout."""
    tensors = {}
    for name, weight in weights.items():
        codes, parameters = Layout.quantize(weight)
        for suffix, tensor in Layout.state_dict_tensors(
                codes, parameters).items():
            tensors[name + suffix] = tensor
        # The label by which ComfyUI itself, not its kernels, recognizes the
        # layer.
        label = b'{"format": "nvfp4"}'
        tensors[name.removesuffix("weight") + "comfy_quant"] = torch.tensor(
            list(label), dtype=torch.uint8)
    return tensors


def _decoded(tensors, name, shape):
    parameters = Layout.Params(
        scale=tensors[f"{name}_scale_2"], orig_dtype=torch.float32,
        orig_shape=tuple(shape), block_scale=tensors[f"{name}_scale"])
    held = QuantizedTensor(tensors[name], "TensorCoreNVFP4Layout", parameters)
    # Decodes to fp32, since for bf16 the library rounds its scales first.
    return held.dequantize().to(torch.bfloat16)


def checks(models, folder):
    for name in ("llama", "minilm"):
        source = directory.tensors(models[name])
        mine = convert(models[name], folder, DIALECT, "nvfp4")
        tensors = directory.tensors(mine)
        quantized = {n: source[n] for n in source if f"{n}_scale_2" in tensors}
        ours = {n: t for n, t in tensors.items()
                if n not in source or n in quantized}
        written = _written(quantized)
        lines, differing, compared = directory.differing_tensors(ours, written)
        stated = 0
        for tensor, count in differing.items():
            if fused.group_of(tensor.rsplit(".", 1)[0]):
                stated += count
            else:
                lines.append(f"{tensor}: {count} bytes")
        yield row(name, "nvfp4", "its tensors and ours",
                  compared and not lines, bytes=compared,
                  differing=sum(differing.values()) - stated,
                  because_fused=stated, lines=lines)
        theirs = folder / f"{name}-library.safetensors"
        rest = {n: t for n, t in source.items() if n not in quantized}
        safetensors.torch.save_file({**rest, **written}, theirs)
        yield lint(name, "nvfp4", theirs, lambda rule, where: False)
        wrong, compared = fused.differing(
            models[name], mine, lambda joined: by_comfy.pack(joined, "nvfp4"))
        yield row(name, "nvfp4", "its bytes of what is fused",
                  compared and not wrong, differing=wrong, bytes=compared)
        plain = directory.tensors(back(mine, folder))
        values = wrong = 0
        for tensor, weight in quantized.items():
            theirs = _decoded(tensors, tensor, weight.shape)
            values += theirs.numel()
            wrong += directory.differing_values(plain[tensor], theirs)
        yield row(name, "nvfp4", "its decoder and ours", values and not wrong,
                  differing=wrong, values=values)
