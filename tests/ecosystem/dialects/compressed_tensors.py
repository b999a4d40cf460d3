"""Checks of compressed-tensors: llm-compressor's model_free_ptq converts the
same model, transformers loads both on a CPU, and the library's compressors
decode quantctl's."""

import contextlib
import io

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import (
    QuantizationArgs,
    QuantizationConfig,
    QuantizationScheme,
    preset_name_to_scheme,
)
from llmcompressor.entrypoints.model_free import model_free_ptq
from loguru import logger

import directory
import fused
import outputs
from checkpoints import back, convert, lint, row
from libraries import by_compressed_tensors

logger.remove()

DIALECT = "compressed-tensors"
SCHEMES = {
    "nvfp4": "NVFP4A16",
    "fp8": "FP8",
    "fp8_dynamic": "FP8_DYNAMIC",
    "fp8_block": "FP8_BLOCK",
    "mxfp8": "MXFP8",
    "mxfp4": "MXFP4A16",
}
# model_free_ptq treats every matrix as a linear layer unless it is excluded.
NOT_LINEAR = ["re:.*embed.*", "re:.*LayerNorm.*"]
# A lower cosine means that outputs are noise, so transformers loaded wrong
# weights.
NOISE = 0.5


def _their_config(format, ignored):
    """Returns llm-compressor's configuration. Without calibration, it supports
    one FP8 scale per tensor only if activations are quantized at run time. No
    preset does that."""
    scheme = preset_name_to_scheme(SCHEMES[format], ["Linear"])
    if format == "fp8":
        scheme.input_activations = QuantizationArgs(
            num_bits=8, type="float", strategy="token", dynamic=True)
    return QuantizationConfig(
        config_groups={SCHEMES[format]: scheme}, ignore=ignored)


def _by_the_library(source, folder, format, ignored):
    target = folder / f"{source.name}-library-{format}"
    ignored = ignored + NOT_LINEAR
    with contextlib.redirect_stderr(io.StringIO()):
        model_free_ptq(source, target, config=_their_config(format, ignored),
                       device="cpu")
    return target


def _decoded(folder):
    """Returns the values of every quantized module, from the library's decoder."""
    config = directory.text(folder, "config.json")["quantization_config"]
    (group,) = config["config_groups"].values()
    compressor = BaseCompressor.get_value_from_registry(group.pop("format"))
    scheme = QuantizationScheme(**group)
    modules = {}
    for name, tensor in directory.tensors(folder).items():
        module, part = name.rsplit(".", 1)
        modules.setdefault(module, {})[part] = tensor
    return {module: compressor.decompress(parts, scheme)["weight"]
            for module, parts in modules.items() if "weight_scale" in parts}


def _check_decoder(name, format, mine, folder):
    plain = directory.tensors(back(mine, folder))
    values = wrong = 0
    for module, theirs in _decoded(mine).items():
        values += theirs.numel()
        wrong += directory.differing_values(
            plain[f"{module}.weight"], theirs.to(torch.bfloat16))
    return row(name, format, "its decoder and ours", values and not wrong,
               differing=wrong, values=values)


def _check_outputs(name, format, source, mine, theirs):
    _, original = outputs.of(source)
    numbers = []
    for folder in (theirs, mine):
        try:
            _, made = outputs.of(folder)
            numbers.append(outputs.cosine(made, original))
        except Exception as error:
            numbers.append(f"{type(error).__name__}: {error}"[:120])
    theirs, mine = numbers
    if not isinstance(theirs, float) or theirs < NOISE:
        return row(name, format, "loads (nor does the library's)", True,
                   theirs=theirs, ours=mine)
    ok = isinstance(mine, float) and mine >= theirs - 0.001
    return row(name, format, "cosine of its outputs", ok, theirs=theirs,
               ours=mine)


def _not_fused(format, module):
    """Returns whether llm-compressor gives each member of a fused group its own
    scale. It recognizes q, k, v, gate and up by Llama's names, and fuses only
    NVFP4."""
    if format == "nvfp4":
        return ".experts." in module or ".attention.self." in module
    return format == "fp8"


def _check_files(name, format, mine, theirs):
    lines, differing, compared = directory.differing_tensors(
        directory.tensors(mine), directory.tensors(theirs))
    config = directory.text(theirs, "config.json")
    quantization = config["quantization_config"]
    quantization["ignore"] = [
        m for m in quantization["ignore"] if m not in NOT_LINEAR]
    lines += directory.differing_json(
        directory.text(mine, "config.json"), config)
    stated = 0
    for tensor, count in differing.items():
        module = tensor.rsplit(".", 1)[0]
        if fused.group_of(module) and _not_fused(format, module):
            stated += count
        else:
            lines.append(f"{tensor}: {count} bytes")
    return row(name, format, "its files and ours", compared and not lines,
               differing=sum(differing.values()) - stated, bytes=compared,
               because_fused=stated, lines=lines)


def _check_fused(name, format, source, mine):
    kind = {"fp8": "fp8_e4m3"}.get(format, format)
    wrong, compared = fused.differing(
        source, mine, lambda joined: by_compressed_tensors.pack(joined, kind),
        lambda module: _not_fused(format, module))
    return row(name, format, "its bytes of what is fused", not wrong,
               differing=wrong, bytes=compared)


def checks(models, folder):
    for name in ("minilm", "llama", "experts"):
        for format in SCHEMES:
            if (name, format) == ("experts", "fp8"):
                continue  # engines refuse it, and so does quantctl
            mine = convert(models[name], folder, DIALECT, format)
            ignored = directory.text(
                mine, "config.json")["quantization_config"]["ignore"]
            theirs = _by_the_library(models[name], folder, format, ignored)
            yield _check_files(name, format, mine, theirs)
            # Engines fuse these weights and use the largest scale for all.
            yield lint(
                name, format, theirs, lambda rule, where:
                rule == "fused-scales" and _not_fused(format, where))
            if format in ("nvfp4", "fp8"):
                yield _check_fused(name, format, models[name], mine)
            yield _check_outputs(name, format, models[name], mine, theirs)
            yield _check_decoder(name, format, mine, folder)
