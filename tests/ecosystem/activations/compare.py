"""Compares a library's own calibration of measure.py's model with quantd's.

compare.py compressed-tensors|modelopt FOLDER RESULTS.json
"""

import contextlib
import importlib.metadata
import io
import json
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")

import safetensors.torch
import torch
import transformers

SCALES = ("input_scale", "input_global_scale", "k_scale", "v_scale")


def loaded(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder / "model", dtype=torch.bfloat16, attn_implementation="eager")


def tokenizer():
    """Returns a tokenizer, which oneshot requires even if its rows are tokens."""
    from tokenizers import Tokenizer, models

    words = Tokenizer(models.WordLevel({str(i): i for i in range(256)}, unk_token="0"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="0")


def by_llm_compressor(folder, format, tokens, out):
    """Writes `out`. Returns the largest value that each observer saw."""
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import QuantizationModifier
    from llmcompressor.modifiers.quantization.quantization import mixin
    from llmcompressor.observers import min_max
    from loguru import logger

    logger.remove()
    model = loaded(folder)
    amaxes, seen = {}, {}
    freeze = mixin.freeze_module_quantization
    update = min_max.StaticMinMaxObserver.update_statistics_from_observed

    def note(observer, observed):
        seen[observer] = max(seen.get(observer, 0), float(observed.abs().max()))
        update(observer, observed)

    def read(module):
        name = next(name for name, m in model.named_modules() if m is module)
        for word, letter in (("input", ""), ("k", "k"), ("v", "v")):
            observer = getattr(module, f"{word}_observer", None)
            if observer in seen:
                amaxes[name, letter] = seen[observer]
        freeze(module)

    mixin.freeze_module_quantization = read
    min_max.StaticMinMaxObserver.update_statistics_from_observed = note
    cache = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False,
             "symmetric": True, "observer": "static_minmax"}
    recipe = QuantizationModifier(targets="Linear", scheme=format.upper(),
                                  ignore=["lm_head"], kv_cache_scheme=cache)
    rows = Dataset.from_dict({"input_ids": tokens.tolist()})
    with contextlib.redirect_stderr(io.StringIO()):
        oneshot(model=model, dataset=rows, recipe=recipe, output_dir=str(out),
                processor=tokenizer(), max_seq_length=tokens.shape[1], num_calibration_samples=len(tokens),
                shuffle_calibration_samples=False)
    mixin.freeze_module_quantization = freeze
    min_max.StaticMinMaxObserver.update_statistics_from_observed = update
    return amaxes


def by_modelopt(folder, format, tokens, out):
    import copy

    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint

    config = copy.deepcopy({"nvfp4": mtq.NVFP4_DEFAULT_CFG,
                            "fp8": mtq.FP8_DEFAULT_CFG}[format])
    config["quant_cfg"] += copy.deepcopy(mtq.FP8_KV_CFG["quant_cfg"])
    model = loaded(folder)
    with contextlib.redirect_stdout(io.StringIO()):
        mtq.quantize(model, config, lambda m: [m(input_ids=row) for row in tokens.split(1)])
    ends = {"input_quantizer": "", "k_bmm_quantizer": "k", "v_bmm_quantizer": "v"}
    amaxes = {}
    for name, module in model.named_modules():
        at, _, leaf = name.rpartition(".")
        if leaf in ends and getattr(module, "_amax", None) is not None:
            amaxes[at, ends[leaf]] = float(module.amax)
    with contextlib.redirect_stdout(io.StringIO()):
        export_hf_checkpoint(model, export_dir=out)
    return amaxes


def scales_of(folder):
    found = {}
    for shard in folder.glob("*.safetensors"):
        found |= safetensors.torch.load_file(shard)
    return {name: float(t) for name, t in found.items() if name.endswith(SCALES)}


def ulps(mine, theirs):
    """Returns the distance of two numbers in units of the last place of bf16."""
    return abs(mine - theirs) / 2 ** (torch.tensor(theirs).frexp()[1].item() - 8)


def case(library, folder, format, tokens):
    out = folder / f"library-{library}-{format}"
    by = by_modelopt if library == "modelopt" else by_llm_compressor
    theirs = by(folder, format, tokens, out)
    file = json.loads((folder / "amax.json").read_text())
    mine = {(name, ""): amax for name, amax in file["input_amax"].items()}
    for name, pair in file["kv_amax"].items():
        mine |= {(name, letter): amax for letter, amax in pair.items()}
    here, there = scales_of(folder / f"{library}-{format}"), scales_of(out)
    far = {".".join(filter(None, key)): [mine[key], theirs[key]]
           for key in mine.keys() & theirs.keys() if ulps(mine[key], theirs[key]) > 1}
    row = {
        "library": library, "format": format,
        "inputs": sum(not key[1] for key in mine),
        "caches": sum(bool(key[1]) for key in mine),
        "amaxes_equal": sum(mine[k] == theirs.get(k) for k in mine),
        "amaxes_over_1_ulp": far,
        "amaxes_of_one_side": sorted(map(".".join, mine.keys() ^ theirs.keys())),
        "scales": len(here), "scales_equal": sum(here[n] == there.get(n) for n in here),
        "scales_over_1_ulp": {n: [here[n], there[n]] for n in here.keys() & there.keys()
                              if ulps(here[n], there[n]) > 1},
        "scales_of_one_side": sorted(here.keys() ^ there.keys()),
    }
    schemes = []
    for at in (folder / f"{library}-{format}", out):
        config = json.loads((at / "config.json").read_text())["quantization_config"]
        schemes.append(dict(config["kv_cache_scheme"]))
        # Engines do not read this key, which says how the scales were found.
        schemes[-1].pop("observer", None)
    row["kv_cache_schemes_equal"] = schemes[0] == schemes[1]
    return row


def main():
    library, folder, results = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    tokens = torch.load(folder / "tokens.pt")
    rows = [case(library, folder, format, tokens) for format in ("nvfp4", "fp8")]
    package = {"modelopt": "nvidia-modelopt"}.get(library, "llmcompressor")
    versions = {p: importlib.metadata.version(p) for p in (package, "torch", "transformers")}
    pathlib.Path(results).write_text(
        json.dumps({"versions": versions, "cases": rows}, indent=1) + "\n")
    ok = not any(row["amaxes_over_1_ulp"] or row["amaxes_of_one_side"]
                 or row["scales_over_1_ulp"] or row["scales_of_one_side"]
                 or not row["kv_cache_schemes_equal"] for row in rows)
    sys.exit(0 if ok else 1)


main()
