"""Makes tiny models with random weights, one for each kind that engines load
differently, with the tokenizers and processors that engines require.

python models.py DIRECTORY
"""

import json
import pathlib
import sys

import safetensors.torch
import tokenizers
import torch
import transformers as hf

WORDS = 512
IMAGE = 300  # the image token's id; other special tokens of a model follow it
# The heads of k and v have 128 rows, so that blocks of 128 fit every fused
# member.
SHAPE = dict(
    vocab_size=WORDS, hidden_size=256, intermediate_size=512,
    num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=3)
HEADS = dict(SHAPE, head_dim=64)
EXPERTS = dict(num_experts_per_tok=2, tie_word_embeddings=False)


def _llava():
    return hf.LlavaConfig(
        text_config=hf.LlamaConfig(**HEADS),
        vision_config=hf.CLIPVisionConfig(
            hidden_size=128, intermediate_size=256, num_hidden_layers=2,
            num_attention_heads=2, image_size=56, patch_size=14),
        image_token_index=IMAGE, tie_word_embeddings=False)


def _qwen_vl():
    return hf.Qwen2_5_VLConfig(
        text_config=dict(
            SHAPE, model_type="qwen2_5_vl_text", rope_scaling=dict(
                type="mrope", rope_type="default", mrope_section=[8, 12, 12])),
        vision_config=dict(
            depth=2, hidden_size=128, intermediate_size=256, num_heads=2,
            out_hidden_size=256, patch_size=14, spatial_merge_size=2,
            temporal_patch_size=2, window_size=112, fullatt_block_indexes=[1]),
        image_token_id=IMAGE, video_token_id=IMAGE + 1,
        vision_start_token_id=IMAGE + 2, vision_end_token_id=IMAGE + 3,
        tie_word_embeddings=False)


def _gemma():
    return hf.Gemma3Config(
        text_config=hf.Gemma3TextConfig(**HEADS, sliding_window=128),
        vision_config=hf.SiglipVisionConfig(
            hidden_size=128, intermediate_size=256, num_hidden_layers=2,
            num_attention_heads=2, image_size=56, patch_size=14,
            vision_use_head=False),
        mm_tokens_per_image=4, image_token_index=IMAGE,
        boi_token_index=IMAGE + 1, eoi_token_index=IMAGE + 2)


CONFIGS = {
    "llama": lambda: hf.LlamaConfig(**HEADS, tie_word_embeddings=False),
    "qwen3": lambda: hf.Qwen3Config(**HEADS, tie_word_embeddings=True),
    "qwen3-moe": lambda: hf.Qwen3MoeConfig(
        **HEADS, **EXPERTS, moe_intermediate_size=128, num_experts=4,
        decoder_sparse_step=1, norm_topk_prob=True),
    "mixtral": lambda: hf.MixtralConfig(
        **HEADS, **EXPERTS, num_local_experts=4, sliding_window=None),
    "gpt-oss": lambda: hf.GptOssConfig(
        **HEADS, **EXPERTS, num_local_experts=4, sliding_window=128,
        layer_types=["sliding_attention", "full_attention"]),
    "deepseek-v3": lambda: hf.DeepseekV3Config(
        **{**SHAPE, "num_key_value_heads": 4}, **EXPERTS,
        moe_intermediate_size=128, n_routed_experts=8, n_shared_experts=1,
        n_group=2, topk_group=1, first_k_dense_replace=1, q_lora_rank=128,
        kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128,
        v_head_dim=128, rope_parameters=dict(
            rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=32,
            beta_slow=1, mscale=1.0, mscale_all_dim=1.0,
            original_max_position_embeddings=128)),
    "qwen2.5-vl": _qwen_vl,
    "llava": _llava,
    "gemma-3": _gemma,
}


def _settle(model):
    """Gives weights the magnitudes of trained ones, different in each weight,
    so that a test notices the scale of another weight."""
    generator = torch.Generator().manual_seed(14)

    def normal(weight):
        return torch.randn(weight.shape, generator=generator)

    for name, weight in model.named_parameters():
        if weight.dim() < 2:
            size = 1 if "norm" in name and "gemma" not in \
                model.config.model_type else 0
            weight.data.copy_(size + normal(weight) * 0.1)
            continue
        # In some models stacks of experts have the inputs first.
        inputs = max(weight.shape[1:]) if weight.dim() == 3 else weight[0].numel()
        size = (1 + 0.5 * torch.rand(1, generator=generator)) * inputs ** -0.5
        values = normal(weight) * size
        if "embed_tokens" in name:  # small, because a head may be tied to them
            tied = model.get_output_embeddings().weight is weight
            values = normal(weight) * (0.1 if tied else 1)
        elif "lm_head" not in name:
            values *= 1 + 4 * (
                torch.rand(weight.shape, generator=generator) > 0.999)
        weight.data.copy_(values)
    for name, bias in model.named_buffers():
        if "correction_bias" in name:
            bias.data.copy_(normal(bias) * 0.01)


def _tokenizer(named):
    """Returns a tokenizer with a token for each byte and for each named word."""
    words = ["<unk>", "<s>", "</s>", "<pad>",
             *sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())]
    words += [f"<x{n}>" for n in range(len(words), WORDS)]
    for n, word in named.items():
        words[n] = word
    made = tokenizers.Tokenizer(tokenizers.models.BPE(
        vocab={word: n for n, word in enumerate(words)}, merges=[],
        unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(list(named.values()))
    extra = {"image_token": "<image>", "boi_token": "<boi>",
             "eoi_token": "<eoi>"} if "<boi>" in named.values() else {}
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", pad_token="<pad>", extra_special_tokens=extra,
        chat_template="{% for m in messages %}{{ m['content'] }}{% endfor %}")


def _reader(name):
    """Returns a tokenizer, or a processor around it."""
    if name == "qwen2.5-vl":
        words = _tokenizer(dict(enumerate(
            ("<|image_pad|>", "<|video_pad|>", "<|vision_start|>",
             "<|vision_end|>"), IMAGE)))
        size = dict(min_pixels=56 * 56, max_pixels=112 * 112)
        return hf.Qwen2_5_VLProcessor(
            image_processor=hf.Qwen2VLImageProcessor(**size), tokenizer=words,
            video_processor=hf.Qwen2VLVideoProcessor(**size),
            chat_template=words.chat_template)
    if name == "llava":
        return hf.LlavaProcessor(
            image_processor=hf.CLIPImageProcessor(
                size={"shortest_edge": 56},
                crop_size={"height": 56, "width": 56}),
            tokenizer=_tokenizer({IMAGE: "<image>"}), patch_size=14,
            vision_feature_select_strategy="default", image_token="<image>",
            num_additional_image_tokens=1)
    if name == "gemma-3":
        return hf.Gemma3Processor(
            image_processor=hf.Gemma3ImageProcessor(
                size={"height": 56, "width": 56}),
            tokenizer=_tokenizer(dict(enumerate(
                ("<image>", "<boi>", "<eoi>", *("\n" * n for n in range(1, 5))),
                IMAGE))), image_seq_length=4)
    return _tokenizer({})


def _as_published(path):
    """Renames vision towers as in published files, which engines read.
    transformers omits a level of the names."""
    def name(old):
        level = "vision_tower."
        if old.startswith(level) and "vision_model" not in old:
            return level + "vision_model." + old.removeprefix(level)
        return old

    for shard in path.glob("*.safetensors"):
        tensors = safetensors.torch.load_file(shard)
        safetensors.torch.save_file(
            {name(old): value for old, value in tensors.items()}, shard,
            metadata={"format": "pt"})
    index = path / "model.safetensors.index.json"
    value = json.loads(index.read_text())
    value["weight_map"] = {
        name(old): shard for old, shard in value["weight_map"].items()}
    index.write_text(json.dumps(value, indent=2))


def make(folder):
    """Returns the directory of each model, and writes those that are missing."""
    made = {name: pathlib.Path(folder) / name for name in CONFIGS}
    for name, path in made.items():
        if (path / "tokenizer_config.json").exists():
            continue
        torch.manual_seed(0)
        config = CONFIGS[name]()
        kind = hf.AutoModelForImageTextToText if hasattr(
            config, "vision_config") else hf.AutoModelForCausalLM
        model = kind.from_config(config, dtype=torch.bfloat16)
        if name == "deepseek-v3":
            model.config.topk_method = "noaux_tc"
            model.config.moe_layer_freq = 1
            model.config.scoring_func = "sigmoid"
        _settle(model)
        size = sum(weight.nbytes for weight in model.parameters())
        model.save_pretrained(path, max_shard_size=size * 6 // 10)
        if name in ("llava", "gemma-3"):
            _as_published(path)
        _reader(name).save_pretrained(path)
    return made


if __name__ == "__main__":
    make(sys.argv[1])
