"""Makes models to convert: MiniLM, and small artificial ones with features of
real models: names that engines fuse, two shards, tied embeddings, and experts
separate or stacked.

python models.py DIRECTORY
"""

import pathlib
import sys

import torch
import transformers

import inputs

SHAPE = dict(
    vocab_size=512, hidden_size=256, intermediate_size=512,
    num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    head_dim=64, max_position_embeddings=256)


def _llama():
    return transformers.LlamaConfig(**SHAPE, tie_word_embeddings=True)


def _experts():
    """Returns the configuration of a model with a tensor for each expert."""
    return transformers.Qwen3MoeConfig(
        **SHAPE, moe_intermediate_size=128, num_experts=4,
        num_experts_per_tok=2, decoder_sparse_step=1, tie_word_embeddings=False)


def _stacked():
    """Returns the configuration of a model with one tensor for a layer's experts."""
    return transformers.GptOssConfig(
        **SHAPE, num_local_experts=4, num_experts_per_tok=2,
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=64, tie_word_embeddings=False)


MADE = {"llama": _llama, "experts": _experts, "stacked": _stacked}


def _settle(model):
    """Gives weights the magnitudes of trained ones, and a few outliers."""
    generator = torch.Generator().manual_seed(14)
    for name, weight in model.named_parameters():
        if weight.dim() < 2:
            continue
        values = torch.randn(weight.shape, generator=generator) * 0.03
        values *= 1 + 9 * (torch.rand(weight.shape, generator=generator) > 0.999)
        weight.data.copy_(values)


def _minilm(folder):
    """Saves MiniLM as bf16, the only type to which the libraries decode all formats."""
    model = transformers.AutoModel.from_pretrained(
        inputs.minilm_directory(), dtype=torch.bfloat16)
    model.save_pretrained(folder)


def make(folder):
    """Returns directories by name, and writes those that are missing."""
    folder = pathlib.Path(folder)
    made = {"minilm": folder / "minilm"}
    if not made["minilm"].exists():
        _minilm(made["minilm"])
    for name, config in MADE.items():
        made[name] = folder / name
        if made[name].exists():
            continue
        torch.manual_seed(0)
        config = config()
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16)
        _settle(model)
        size = sum(p.numel() * 2 for p in model.parameters())
        model.save_pretrained(made[name], max_shard_size=size * 6 // 10)
    return made


if __name__ == "__main__":
    make(sys.argv[1])
