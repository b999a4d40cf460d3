"""Makes a tiny Llama and tokens, calibrates it with quantd, and converts it with the result.

measure.py FOLDER   writes FOLDER/model, tokens.pt, amax.json and DIALECT-FORMAT
"""

import itertools
import os
import pathlib
import sys

import quantd
import torch
import transformers

SIZES = dict(vocab_size=256, hidden_size=128, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, intermediate_size=256, tie_word_embeddings=False)
ROWS, LENGTH = 24, 64


def made(folder):
    """Writes random weights, with columns that make some inputs large, as in real models."""
    torch.manual_seed(47)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.data *= 1 + 4 * (torch.rand(parameter.shape[1]) > .96)
    model.to(torch.bfloat16).save_pretrained(folder)


def main():
    folder = pathlib.Path(sys.argv[1])
    quantctl = os.environ["QUANTCTL"]
    made(folder / "model")
    tokens = torch.randint(SIZES["vocab_size"], (ROWS, LENGTH))
    torch.save(tokens, folder / "tokens.pt")
    # llm-compressor calibrates with eager attention, whatever the model has.
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder / "model", dtype=torch.bfloat16, attn_implementation="eager")
    found = quantd.calibrate(model, list(tokens.split(1)), source=folder / "model",
                             quantctl=quantctl)
    found.save(folder / "amax.json")
    for dialect, format in itertools.product(("compressed-tensors", "modelopt"),
                                             ("nvfp4", "fp8")):
        quantd.convert(folder / "model", folder / f"{dialect}-{format}", dialect=dialect,
                       format=format, input_amax=folder / "amax.json", kv_cache="fp8",
                       server="local:cpu", quantctl=quantctl)


main()
