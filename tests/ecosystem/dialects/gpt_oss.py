"""Checks of gpt-oss by transformers' decoder of stacked experts and its loader
on a CPU. There is no other writer to compare with."""

import transformers
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import directory
import outputs
from checkpoints import back, convert, row

DIALECT = "gpt-oss"


def checks(models, folder):
    mine = convert(models["stacked"], folder, DIALECT, "mxfp4")
    plain = directory.tensors(back(mine, folder))
    tensors = directory.tensors(mine)
    values = wrong = 0
    for name, blocks in tensors.items():
        if not name.endswith("_blocks"):
            continue
        stem = name.removesuffix("_blocks")
        theirs = convert_moe_packed_tensors(blocks, tensors[f"{stem}_scales"])
        values += theirs.numel()
        wrong += directory.differing_values(plain[stem], theirs)
    yield row("stacked", "mxfp4", "its decoder and ours", values and not wrong,
              differing=wrong, values=values)
    _, original = outputs.of(models["stacked"])
    _, made = outputs.of(mine, quantization_config=transformers.Mxfp4Config(
        dequantize=True))
    _, ours = outputs.of(back(mine, folder / "again"))
    cosine = outputs.cosine(made, original)
    yield row("stacked", "mxfp4", "cosine of its outputs", cosine > 0.9,
              ours=cosine, of_our_bf16=outputs.cosine(ours, original))
