"""Checks of DeepSeek's blocks: transformers loads quantctl's model on a CPU,
and decodes every weight to quantd's values. There is no other writer to compare
with."""

import torch
import transformers

import directory
import outputs
from checkpoints import back, convert, row

DIALECT = "deepseek"


def _check_values(name, model, plain):
    """Compares the parameters that transformers decoded to those of the bf16
    model that quantctl decoded, by name."""
    loaded = model.state_dict()
    values = wrong = 0
    for tensor, ours in outputs.of(plain)[0].state_dict().items():
        values += ours.numel()
        wrong += directory.differing_values(ours, loaded[tensor])
    return row(name, "fp8_block", "its decoder and ours", values and not wrong,
               differing=wrong, values=values)


def checks(models, folder):
    for name in ("llama", "experts"):
        mine = convert(models[name], folder, DIALECT, "fp8_block")
        _, original = outputs.of(models[name])
        model, made = outputs.of(
            mine, quantization_config=transformers.FineGrainedFP8Config(
                dequantize=True))
        cosine = outputs.cosine(made, original)
        yield row(name, "fp8_block", "cosine of its outputs", cosine > 0.99,
                  ours=cosine)
        yield _check_values(name, model.to(torch.bfloat16),
                            back(mine, folder))
