"""Tables of models that are published quantized, and of their bf16 forms."""

HEAD = "output head: vLLM's ParallelLMHead"
TABLE = "a table that is looked up"
ROUTER = "routers: vLLM's GateLinear, never quantized"
NEXT = "MTP head: the engine's draft model takes its layers as they are"

# Parts of the errors with which quantctl refuses a model.
QUANTIZED_ALREADY = "already quantized"
INTEGERS = "pack-quantized|weight_packed"  # matches either word
DECODE = {"dialect": "none", "format": "bf16"}

_LATENT = """
copy model.layers.{{0-60}}.{{input,post_attention}}_layernorm.weight H
copy model.layers.{{0-60}}.self_attn.q_a_layernorm.weight A
copy model.layers.{{0-60}}.self_attn.kv_a_layernorm.weight 512
quant model.layers.{{0-60}}.self_attn.q_a_proj.weight A,H{stored}
quant model.layers.{{0-60}}.self_attn.q_b_proj.weight QB,A{stored}
quant model.layers.{{0-60}}.self_attn.kv_a_proj_with_mqa.weight 576,H{stored}
any model.layers.{{0-60}}.self_attn.kv_b_proj.weight KVB,512{stored}  # not quantized in 4-bit formats: engines split it while they load
quant model.layers.{{0-60}}.self_attn.o_proj.weight H,O{stored}
"""
_DENSE = """
quant model.layers.{{DENSE}}.mlp.{{gate,up}}_proj.weight D,H{stored}
quant model.layers.{{DENSE}}.mlp.down_proj.weight H,D{stored}
plain model.layers.{{MOE}}.mlp.gate.weight E,H  # {router}
copy model.layers.{{MOE}}.mlp.gate.e_score_correction_bias E dtype=F32
quant model.layers.{{MOE}}.mlp.experts.{{EXPERTS}}.{{gate,up}}_proj.weight I,H{experts}
quant model.layers.{{MOE}}.mlp.experts.{{EXPERTS}}.down_proj.weight H,I{experts}
quant model.layers.{{MOE}}.mlp.shared_experts.{{gate,up}}_proj.weight I,H{stored}
quant model.layers.{{MOE}}.mlp.shared_experts.down_proj.weight H,I{stored}
copy model.embed_tokens.weight V,H  # {table}
copy model.norm.weight H
plain lm_head.weight V,H  # {head}
"""
_NEXT = """
copy model.layers.61.{{input_layernorm,post_attention_layernorm,enorm,hnorm,shared_head.norm}}.weight H
copy model.layers.61.embed_tokens.weight V,H  # {table}
plain model.layers.61.eh_proj.weight H,2*H  # {next}
plain model.layers.61.shared_head.head.weight V,H  # {next}
copy model.layers.61.self_attn.q_a_layernorm.weight A
copy model.layers.61.self_attn.kv_a_layernorm.weight 512
plain model.layers.61.self_attn.q_a_proj.weight A,H{stored}  # {next}
plain model.layers.61.self_attn.q_b_proj.weight QB,A{stored}  # {next}
plain model.layers.61.self_attn.kv_a_proj_with_mqa.weight 576,H{stored}  # {next}
plain model.layers.61.self_attn.kv_b_proj.weight KVB,512{stored}  # {next}
plain model.layers.61.self_attn.o_proj.weight H,O{stored}  # {next}
plain model.layers.61.mlp.gate.weight E,H  # {router}
copy model.layers.61.mlp.gate.e_score_correction_bias E dtype=F32
plain model.layers.61.mlp.experts.{{EXPERTS}}.{{gate,up}}_proj.weight I,H{stored}  # {next}
plain model.layers.61.mlp.experts.{{EXPERTS}}.down_proj.weight H,I{stored}  # {next}
plain model.layers.61.mlp.shared_experts.{{gate,up}}_proj.weight I,H{stored}  # {next}
plain model.layers.61.mlp.shared_experts.down_proj.weight H,I{stored}  # {next}
"""
_INDEXER = """
any model.layers.{{0-60}}.self_attn.indexer.wq_b.weight 8192,A{stored}  # vLLM and SGLang load it quantized or not
plain model.layers.{{0-60}}.self_attn.indexer.wk.weight 128,H{stored}  # indexer: vLLM joins it with weights_proj, with quant_config=None
plain model.layers.{{0-60}}.self_attn.indexer.weights_proj.weight 64,H  # indexer: vLLM and SGLang build it without quant_config
copy model.layers.{{0-60}}.self_attn.indexer.k_norm.{{weight,bias}} 128 dtype=F32
plain model.layers.61.self_attn.indexer.wq_b.weight 8192,A{stored}  # {next}
plain model.layers.61.self_attn.indexer.wk.weight 128,H{stored}  # {next}
plain model.layers.61.self_attn.indexer.weights_proj.weight 64,H  # {next}
copy model.layers.61.self_attn.indexer.k_norm.{{weight,bias}} 128 dtype=F32
"""


def _rows(text, stored="", experts=None):
    return text.format(
        stored=stored, experts=stored if experts is None else experts,
        router=ROUTER, table=TABLE, head=HEAD, next=NEXT)


def _deepseek(name, hub, model_type, architecture, rows, stored, **more):
    model = {
        "name": name, "hub": hub,
        "config": {
            "architectures": [architecture], "model_type": model_type,
            "first_k_dense_replace": 3, "hidden_size": "$H",
            "intermediate_size": "$D", "kv_lora_rank": 512,
            "moe_intermediate_size": "$I", "n_routed_experts": 256,
            "n_shared_experts": 1, "num_attention_heads": 128,
            "num_hidden_layers": 61, "num_nextn_predict_layers": 1,
            "q_lora_rank": "$A", "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": "$V",
            "tie_word_embeddings": False, "torch_dtype": "bfloat16"},
        "numbers": {"H": 7168, "D": 18432, "I": 2048, "A": 1536, "QB": 24576,
                    "KVB": 32768, "O": 16384, "V": 129280, "E": 256},
        "step": 128,
        "sets": {"DENSE": [0, 1, 2], "MOE": list(range(3, 61))},
        "shards": 163,
        "rows": _rows(rows, stored).replace("{EXPERTS}", "{0-255}"),
    }
    if stored:
        model["config"]["quantization_config"] = {
            "activation_scheme": "dynamic", "fmt": "e4m3",
            "quant_method": "fp8", "weight_block_size": [128, 128]}
        model["runs"] = [{}, DECODE]
    else:
        model["runs"] = [{"also": [("modelopt", "nvfp4"),
                                   ("deepseek", "fp8_block")]}]
    return {**model, **more}


_V3 = ("deepseek-ai/DeepSeek-V3", "deepseek_v3", "DeepseekV3ForCausalLM",
       _LATENT + _DENSE + _NEXT)
_V32 = ("deepseek-ai/DeepSeek-V3.2-Exp", "deepseek_v32",
        "DeepseekV32ForCausalLM", _LATENT + _INDEXER + _DENSE + _NEXT)

KIMI = {
    "name": "Kimi-K2 Thinking, INT4 as published",
    "hub": "moonshotai/Kimi-K2-Thinking",
    "config": {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "kimi_k2",
        "first_k_dense_replace": 1, "hidden_size": "$H",
        "intermediate_size": "$D", "kv_lora_rank": 512,
        "moe_intermediate_size": "$I", "n_routed_experts": 384,
        "num_attention_heads": 64, "num_hidden_layers": 61,
        "q_lora_rank": "$A", "vocab_size": "$V", "tie_word_embeddings": False,
        "quantization_config": {
            "config_groups": {"group_0": {
                "input_activations": None, "output_activations": None,
                "targets": ["Linear"],
                "weights": {"group_size": 32, "num_bits": 4,
                            "strategy": "group", "symmetric": True,
                            "type": "int"}}},
            "format": "pack-quantized",
            "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
                       "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"],
            "quant_method": "compressed-tensors",
            "quantization_status": "compressed"},
        "torch_dtype": "bfloat16"},
    "numbers": {"H": 7168, "D": 18432, "I": 2048, "A": 1536, "QB": 12288,
                "KVB": 16384, "O": 8192, "V": 163840, "E": 384},
    "sets": {"DENSE": [0], "MOE": list(range(1, 61))},
    "shards": 62,
    "rows": _rows(_LATENT + _DENSE, "", " int4").replace(
        "{EXPERTS}", "{0-383}"),
    # Integer weights cannot be decoded, either.
    "runs": [{"refused": INTEGERS}, {**DECODE, "refused": INTEGERS}],
}

_GPT_OSS = {
    "hub": "openai/gpt-oss-20b",
    "config": {
        "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
        "head_dim": 64, "hidden_size": "$H", "intermediate_size": "$I",
        "num_attention_heads": 64, "num_hidden_layers": 24,
        "num_key_value_heads": 8, "num_local_experts": 32, "vocab_size": "$V",
        "tie_word_embeddings": False, "torch_dtype": "bfloat16"},
    "numbers": {"H": 2880, "I": 2880, "Q": 4096, "KV": 512, "V": 201088,
                "E": 32},
    "mapper": {"part": {".self_attn.": ".attn."}},
}
_GPT_OSS_ROWS = f"""
copy model.embed_tokens.weight V,H  # {TABLE}
copy model.layers.{{0-23}}.{{input,post_attention}}_layernorm.weight H
WORD model.layers.{{0-23}}.self_attn.q_proj.weight Q,H bias  # {{rest}}
WORD model.layers.{{0-23}}.self_attn.{{k,v}}_proj.weight KV,H bias  # {{rest}}
WORD model.layers.{{0-23}}.self_attn.o_proj.weight H,Q bias  # {{rest}}
copy model.layers.{{0-23}}.self_attn.sinks 64
plain model.layers.{{0-23}}.mlp.router.weight E,H bias  # routers: vLLM builds it with quant_config=None
copy model.layers.{{0-23}}.mlp.experts.gate_up_proj_bias E,2*I
copy model.layers.{{0-23}}.mlp.experts.down_proj_bias E,H
copy model.norm.weight H
plain lm_head.weight V,H  # {HEAD}
"""
# Both dimensions of the `down` stack are equal, so its order follows from the
# class.
_GPT_OSS_STACKS = """
stack model.layers.{0-23}.mlp.experts.gate_up_proj E,H,2*I as *.gate_proj+*.up_proj!
stack model.layers.{0-23}.mlp.experts.down_proj E,I,H as *.down_proj!
"""
_ONLY_EXPERTS = _GPT_OSS_ROWS.replace("WORD", "plain").replace(
    "{rest}", "attention: the format quantizes experts only")

MODELS = [
    _deepseek("DeepSeek-V3, FP8 as published", *_V3, " fp8"),
    _deepseek("DeepSeek-V3, bf16", *_V3, ""),
    _deepseek("DeepSeek-V3.2, FP8 as published", *_V32, " fp8"),
    _deepseek("DeepSeek-V3.2, bf16", *_V32, ""),
    KIMI,
    {**KIMI, "name": "Kimi-K2 Thinking, INT4, without quantization_config",
     "config": {key: value for key, value in KIMI["config"].items()
                if key != "quantization_config"},
     "runs": [{"refused": INTEGERS}]},
    {**_GPT_OSS, "name": "gpt-oss 20B, MXFP4 as published", "shards": 3,
     "config": {**_GPT_OSS["config"], "quantization_config": {
         "modules_to_not_convert": [
             "model.layers.*.self_attn", "model.layers.*.mlp.router",
             "model.embed_tokens", "lm_head"],
         "quant_method": "mxfp4"}},
     "rows": _ONLY_EXPERTS + """
quant model.layers.{0-23}.mlp.experts.gate_up_proj_blocks E,2*I,H/32,16 dtype=U8
quant model.layers.{0-23}.mlp.experts.gate_up_proj_scales E,2*I,H/32 dtype=U8
quant model.layers.{0-23}.mlp.experts.down_proj_blocks E,H,I/32,16 dtype=U8
quant model.layers.{0-23}.mlp.experts.down_proj_scales E,H,I/32 dtype=U8
""",
     "runs": [{"refused": QUANTIZED_ALREADY}, DECODE]},
    {**_GPT_OSS, "name": "gpt-oss 20B, bf16", "shards": 9,
     "rows": _ONLY_EXPERTS + """
quant model.layers.{0-23}.mlp.experts.gate_up_proj E,H,2*I
quant model.layers.{0-23}.mlp.experts.down_proj E,I,H
""",
     "runs": [{"dialect": "gpt-oss", "format": "mxfp4"}]},
    {**_GPT_OSS, "name": "gpt-oss 20B, bf16, converted as other models", "shards": 9,
     "rows": _GPT_OSS_ROWS.replace("WORD", "quant").replace("  # {rest}", "")
     + _GPT_OSS_STACKS},
]
