"""Checks of ModelOpt: export_hf_checkpoint writes the same model, and the
library's tensor classes decode quantctl's. It has no loader for a CPU."""

import contextlib
import io
import json
import warnings

warnings.filterwarnings("ignore")

import modelopt.torch.quantization as mtq
import torch
import transformers
from modelopt.torch.export import export_hf_checkpoint
from modelopt.torch.quantization import qtensor

import directory
import fused
from checkpoints import back, convert, lint, row
from libraries import by_modelopt

transformers.logging.set_verbosity_error()

DIALECT = "modelopt"
# The name of the check, quantd's format, ModelOpt's configuration, and whether
# the file has scales of activations.
CASES = [
    ("nvfp4 W4A16", "nvfp4", mtq.W4A16_NVFP4_CFG, False),
    ("nvfp4 W4A4", "nvfp4", mtq.NVFP4_DEFAULT_CFG, True),
    ("fp8", "fp8", mtq.FP8_DEFAULT_CFG, True),
    ("mxfp8", "mxfp8", mtq.MXFP8_DEFAULT_CFG, False),
]


def _tokens(model):
    generator = torch.Generator().manual_seed(3)
    for _ in range(8):
        model(input_ids=torch.randint(0, 500, (8, 64), generator=generator))


def _by_the_library(source, target, config):
    """Writes `target`. Returns the largest input of each module."""
    kind = transformers.AutoModelForCausalLM
    model = kind.from_pretrained(source, dtype=torch.bfloat16)
    with contextlib.redirect_stdout(io.StringIO()):
        mtq.quantize(model, config, _tokens)
        amaxes = {
            name.removesuffix(".input_quantizer"): float(module.amax)
            for name, module in model.named_modules()
            if name.endswith(".input_quantizer")
            and getattr(module, "_amax", None) is not None
        }
        export_hf_checkpoint(model, export_dir=target)
    return amaxes


def _decoded(parts, format):
    codes, scale = parts["weight"], parts["weight_scale"]
    if format == "nvfp4":
        shape = (codes.shape[0], 2 * codes.shape[1])
        return qtensor.NVFP4QTensor(shape, torch.bfloat16, codes).dequantize(
            torch.bfloat16, scale=scale, double_scale=parts["weight_scale_2"],
            block_sizes={-1: 16})
    if format == "mxfp8":
        return qtensor.MXFP8QTensor(codes.shape, torch.bfloat16,
                                    codes).dequantize(torch.bfloat16,
                                                      scale=scale)
    # Decodes to fp32, since for bf16 the library rounds its scale first.
    return qtensor.FP8QTensor(codes.shape, torch.float32, codes).dequantize(
        torch.float32, scale=scale)


def _check_decoder(name, label, format, mine, folder):
    plain = directory.tensors(back(mine, folder))
    modules = {}
    for tensor_name, tensor in directory.tensors(mine).items():
        module, part = tensor_name.rsplit(".", 1)
        modules.setdefault(module, {})[part] = tensor
    values = wrong = 0
    for module, parts in modules.items():
        if "weight_scale" not in parts:
            continue
        # ModelOpt's table of values has no negative zero.
        ours = plain[f"{module}.weight"] + 0.0
        theirs = _decoded(parts, format) + 0.0
        values += theirs.numel()
        wrong += (directory.not_nearest(ours, theirs) if format == "fp8" else
                  directory.differing_values(ours, theirs))
    return row(name, label, "its decoder and ours", values and not wrong,
               differing=wrong, values=values)


def _check_files(name, label, mine, theirs):
    lines, differing, compared = directory.differing_tensors(
        directory.tensors(mine), directory.tensors(theirs))
    ours = directory.text(mine, "config.json")
    # quantctl also writes group_size into config.json, for readers of that
    # file. The library writes it only into hf_quant_config.json.
    ours["quantization_config"].pop("group_size", None)
    their = directory.text(theirs, "config.json")
    own = directory.text(mine, "hf_quant_config.json")
    their_own = directory.text(theirs, "hf_quant_config.json")
    for here, there, key in (
            (ours["quantization_config"], their["quantization_config"],
             "ignore"),
            (own["quantization"], their_own["quantization"],
             "exclude_modules")):
        there[key] = directory.one_list(here[key], there[key])
    lines += directory.differing_json(ours, their)
    lines += directory.differing_json(own, their_own)
    stated = 0
    for tensor, count in differing.items():
        # ModelOpt gives each fused member its own FP8 scale, and engines join
        # them.
        if label == "fp8" and fused.group_of(tensor.rsplit(".", 1)[0]):
            stated += count
        else:
            lines.append(f"{tensor}: {count} bytes")
    return row(name, label, "its files and ours", compared and not lines,
               differing=sum(differing.values()) - stated, bytes=compared,
               because_fused=stated, lines=lines)


def _check_fused(name, label, source, mine):
    wrong, compared = fused.differing(
        source, mine,
        lambda joined: by_modelopt.pack(joined, "fp8_e4m3"))
    return row(name, label, "its bytes of what is fused",
               compared and not wrong, differing=wrong, bytes=compared)


def checks(models, folder):
    for name in ("llama", "experts"):
        for label, format, config, measured in CASES:
            # ModelOpt does not report which amax belongs to which expert.
            if measured and name == "experts":
                continue
            theirs = folder / f"{name}-library-{label}"
            amaxes = _by_the_library(models[name], theirs, config)
            more = []
            if measured:
                path = folder / "amax.json"
                path.write_text(json.dumps(amaxes))
                more = ["--input-amax", path]
            place = folder / label
            place.mkdir(exist_ok=True)
            mine = convert(models[name], place, DIALECT, format, *more)
            yield _check_files(name, label, mine, theirs)
            yield lint(name, label, theirs, lambda rule, where: False)
            if format == "fp8":
                yield _check_fused(name, label, models[name], mine)
            yield _check_decoder(name, label, format, mine, place)
