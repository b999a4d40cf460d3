"""Tables of mixtures of experts in bf16."""

HEAD = "output head: vLLM's ParallelLMHead"
TABLE = "a table that is looked up"
ROUTER = "routers: vLLM's GateLinear, never quantized"
NEXT = "MTP head: the engine's draft model takes its layers as they are"

MIXTRAL = {
    "name": "Mixtral 8x7B",
    "hub": "mistralai/Mixtral-8x7B-v0.1",
    "config": {
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
        "hidden_size": "$H", "intermediate_size": "$I",
        "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_hidden_layers": 32, "num_local_experts": 8, "vocab_size": "$V",
        "tie_word_embeddings": False, "torch_dtype": "bfloat16"},
    "numbers": {"H": 4096, "I": 14336, "KV": 1024, "V": 32000, "E": 8},
    "shards": 19,
    "rows": f"""
copy model.embed_tokens.weight V,H  # {TABLE}
copy model.layers.{{0-31}}.{{input,post_attention}}_layernorm.weight H
quant model.layers.{{0-31}}.self_attn.{{q,o}}_proj.weight H,H
quant model.layers.{{0-31}}.self_attn.{{k,v}}_proj.weight KV,H
plain model.layers.{{0-31}}.block_sparse_moe.gate.weight E,H  # {ROUTER}
quant model.layers.{{0-31}}.block_sparse_moe.experts.{{0-7}}.{{w1,w3}}.weight I,H
quant model.layers.{{0-31}}.block_sparse_moe.experts.{{0-7}}.w2.weight H,I
copy model.norm.weight H
plain lm_head.weight V,H  # {HEAD}
""",
}

QWEN3_MOE = {
    "name": "Qwen3 30B-A3B",
    "hub": "Qwen/Qwen3-30B-A3B",
    "config": {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
        "head_dim": 128, "hidden_size": "$H", "intermediate_size": 6144,
        "moe_intermediate_size": "$I", "num_attention_heads": 32,
        "num_experts": 128, "num_key_value_heads": 4, "num_hidden_layers": 48,
        "vocab_size": "$V", "tie_word_embeddings": False,
        "torch_dtype": "bfloat16"},
    "numbers": {"H": 2048, "I": 768, "Q": 4096, "KV": 512, "V": 151936,
                "E": 128},
    "shards": 16,
    "rows": f"""
copy model.embed_tokens.weight V,H  # {TABLE}
copy model.layers.{{0-47}}.{{input,post_attention}}_layernorm.weight H
copy model.layers.{{0-47}}.self_attn.{{q,k}}_norm.weight 128
quant model.layers.{{0-47}}.self_attn.q_proj.weight Q,H
quant model.layers.{{0-47}}.self_attn.{{k,v}}_proj.weight KV,H
quant model.layers.{{0-47}}.self_attn.o_proj.weight H,Q
plain model.layers.{{0-47}}.mlp.gate.weight E,H  # {ROUTER}
quant model.layers.{{0-47}}.mlp.experts.{{0-127}}.{{gate,up}}_proj.weight I,H
quant model.layers.{{0-47}}.mlp.experts.{{0-127}}.down_proj.weight H,I
copy model.norm.weight H
plain lm_head.weight V,H  # {HEAD}
""",
}

_FULL = list(range(3, 48, 4))
QWEN3_NEXT = {
    "name": "Qwen3-Next 80B-A3B",
    "hub": "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "config": {
        "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
        "full_attention_interval": 4, "head_dim": 256, "hidden_size": "$H",
        "intermediate_size": 5120, "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128, "linear_num_key_heads": 16,
        "linear_num_value_heads": 32, "linear_value_head_dim": 128,
        "moe_intermediate_size": "$I", "num_attention_heads": 16,
        "num_experts": 512, "num_key_value_heads": 2, "num_hidden_layers": 48,
        "shared_expert_intermediate_size": "$I", "vocab_size": "$V",
        "tie_word_embeddings": False, "torch_dtype": "bfloat16"},
    "numbers": {"H": 2048, "I": 512, "Q": 4096, "KV": 512, "V": 151936,
                "E": 512},
    "sets": {"FULL": _FULL,
             "LINEAR": [n for n in range(48) if n not in _FULL]},
    "shards": 41,
    "rows": f"""
copy model.embed_tokens.weight V,H  # {TABLE}
copy model.layers.{{0-47}}.{{input,post_attention}}_layernorm.weight H
copy model.layers.{{FULL}}.self_attn.{{q,k}}_norm.weight 256
quant model.layers.{{FULL}}.self_attn.q_proj.weight 2*Q,H
quant model.layers.{{FULL}}.self_attn.{{k,v}}_proj.weight KV,H
quant model.layers.{{FULL}}.self_attn.o_proj.weight H,Q
copy model.layers.{{LINEAR}}.linear_attn.{{A_log,dt_bias}} 32
copy model.layers.{{LINEAR}}.linear_attn.conv1d.weight 2*Q,1,4  # a convolution
quant model.layers.{{LINEAR}}.linear_attn.in_proj_qkvz.weight 3*Q,H
any model.layers.{{LINEAR}}.linear_attn.in_proj_ba.weight 64,H  # vLLM loads it quantized or not
copy model.layers.{{LINEAR}}.linear_attn.norm.weight 128
quant model.layers.{{LINEAR}}.linear_attn.out_proj.weight H,Q
plain model.layers.{{0-47}}.mlp.gate.weight E,H  # {ROUTER}
quant model.layers.{{0-47}}.mlp.experts.{{0-511}}.{{gate,up}}_proj.weight I,H
quant model.layers.{{0-47}}.mlp.experts.{{0-511}}.down_proj.weight H,I
quant model.layers.{{0-47}}.mlp.shared_expert.{{gate,up}}_proj.weight I,H
quant model.layers.{{0-47}}.mlp.shared_expert.down_proj.weight H,I
plain model.layers.{{0-47}}.mlp.shared_expert_gate.weight 1,H  # routers: vLLM builds it with quant_config=None
copy model.norm.weight H
plain lm_head.weight V,H  # output head: vLLM builds it without quant_config
plain mtp.fc.weight H,2*H  # {NEXT}
copy mtp.{{norm,pre_fc_norm_embedding,pre_fc_norm_hidden}}.weight H
copy mtp.layers.0.{{input,post_attention}}_layernorm.weight H
copy mtp.layers.0.self_attn.{{q,k}}_norm.weight 256
plain mtp.layers.0.self_attn.q_proj.weight 2*Q,H  # {NEXT}
plain mtp.layers.0.self_attn.{{k,v}}_proj.weight KV,H  # {NEXT}
plain mtp.layers.0.self_attn.o_proj.weight H,Q  # {NEXT}
plain mtp.layers.0.mlp.gate.weight E,H  # {ROUTER}
plain mtp.layers.0.mlp.experts.{{0-511}}.{{gate,up}}_proj.weight I,H  # {NEXT}
plain mtp.layers.0.mlp.experts.{{0-511}}.down_proj.weight H,I  # {NEXT}
plain mtp.layers.0.mlp.shared_expert.{{gate,up}}_proj.weight I,H  # {NEXT}
plain mtp.layers.0.mlp.shared_expert.down_proj.weight H,I  # {NEXT}
plain mtp.layers.0.mlp.shared_expert_gate.weight 1,H  # {NEXT}
""",
}

LLAMA4 = {
    "name": "Llama 4 Scout",
    "hub": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "config": {
        "architectures": ["Llama4ForConditionalGeneration"],
        "model_type": "llama4", "tie_word_embeddings": False,
        "text_config": {
            "model_type": "llama4_text", "head_dim": 128, "hidden_size": "$H",
            "interleave_moe_layer_step": 1, "intermediate_size": "$I",
            "intermediate_size_mlp": 16384, "num_attention_heads": 40,
            "num_hidden_layers": 48, "num_key_value_heads": 8,
            "num_local_experts": 16, "vocab_size": "$V"},
        "vision_config": {"hidden_size": "$W", "intermediate_size": "$F",
                          "image_size": 336, "model_type": "llama4_vision_model",
                          "num_hidden_layers": 34, "projector_input_dim": "$P",
                          "projector_output_dim": "$P",
                          "vision_output_dim": "$P"},
        "torch_dtype": "bfloat16"},
    "numbers": {"H": 5120, "I": 8192, "KV": 1024, "V": 202048, "E": 16,
                "W": 1408, "F": 5632, "P": 4096},
    "shards": 50,
    "rows": f"""
copy language_model.model.embed_tokens.weight V,H  # {TABLE}
copy language_model.model.layers.{{0-47}}.{{input,post_attention}}_layernorm.weight H
plain language_model.model.layers.{{0-47}}.self_attn.q_proj.weight H,H  # queries, keys and values: SGLang reorders rows, but not their scales
quant language_model.model.layers.{{0-47}}.self_attn.o_proj.weight H,H
plain language_model.model.layers.{{0-47}}.self_attn.{{k,v}}_proj.weight KV,H  # queries, keys and values: SGLang reorders rows, but not their scales
plain language_model.model.layers.{{0-47}}.feed_forward.router.weight E,H  # {ROUTER}
stack language_model.model.layers.{{0-47}}.feed_forward.experts.gate_up_proj E,H,2*I as *.gate_proj+*.up_proj!
stack language_model.model.layers.{{0-47}}.feed_forward.experts.down_proj E,I,H as *.down_proj!
quant language_model.model.layers.{{0-47}}.feed_forward.shared_expert.{{gate,up}}_proj.weight I,H
quant language_model.model.layers.{{0-47}}.feed_forward.shared_expert.down_proj.weight H,I
copy language_model.model.norm.weight H
plain language_model.lm_head.weight V,H  # {HEAD}
plain multi_modal_projector.linear_1.weight H,P  # projector: vLLM builds it with quant_config=None
copy vision_model.class_embedding W
copy vision_model.positional_embedding_vlm 577,W  # {TABLE}
plain vision_model.patch_embedding.linear.weight W,588  # vision tower: vLLM builds it with quant_config=None
copy vision_model.{{layernorm_pre,layernorm_post}}.{{weight,bias}} W
copy vision_model.model.layers.{{0-33}}.{{input,post_attention}}_layernorm.{{weight,bias}} W
plain vision_model.model.layers.{{0-33}}.self_attn.{{q,k,v,o}}_proj.weight W,W bias  # vision tower: vLLM builds it with quant_config=None
plain vision_model.model.layers.{{0-33}}.mlp.fc1.weight F,W bias  # vision tower: vLLM builds it with quant_config=None
plain vision_model.model.layers.{{0-33}}.mlp.fc2.weight W,F bias  # vision tower: vLLM builds it with quant_config=None
plain vision_model.vision_adapter.mlp.fc1.weight P,F  # vision tower: vLLM builds it with quant_config=None
plain vision_model.vision_adapter.mlp.fc2.weight P,P  # vision tower: vLLM builds it with quant_config=None
""",
}

GLM45 = {
    "name": "GLM-4.5 Air",
    "hub": "zai-org/GLM-4.5-Air",
    "config": {
        "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe",
        "attention_bias": True, "first_k_dense_replace": 1, "head_dim": 128, "hidden_size": "$H",
        "intermediate_size": "$D", "moe_intermediate_size": "$I",
        "n_routed_experts": 128, "n_shared_experts": 1,
        "num_attention_heads": 96, "num_hidden_layers": 46,
        "num_key_value_heads": 8, "num_nextn_predict_layers": 1,
        "vocab_size": "$V", "tie_word_embeddings": False,
        "torch_dtype": "bfloat16"},
    "numbers": {"H": 4096, "D": 10944, "I": 1408, "Q": 12288, "KV": 1024,
                "V": 151552, "E": 128},
    "sets": {"MOE": list(range(1, 46))},
    "shards": 47,
    "rows": f"""
copy model.embed_tokens.weight V,H  # {TABLE}
copy model.layers.{{0-45}}.{{input,post_attention}}_layernorm.weight H
quant model.layers.{{0-45}}.self_attn.q_proj.weight Q,H bias
quant model.layers.{{0-45}}.self_attn.{{k,v}}_proj.weight KV,H bias
quant model.layers.{{0-45}}.self_attn.o_proj.weight H,Q
quant model.layers.0.mlp.{{gate,up}}_proj.weight D,H
quant model.layers.0.mlp.down_proj.weight H,D
plain model.layers.{{MOE}}.mlp.gate.weight E,H  # {ROUTER}
copy model.layers.{{MOE}}.mlp.gate.e_score_correction_bias E dtype=F32
quant model.layers.{{MOE}}.mlp.experts.{{0-127}}.{{gate,up}}_proj.weight I,H
quant model.layers.{{MOE}}.mlp.experts.{{0-127}}.down_proj.weight H,I
quant model.layers.{{MOE}}.mlp.shared_experts.{{gate,up}}_proj.weight I,H
quant model.layers.{{MOE}}.mlp.shared_experts.down_proj.weight H,I
copy model.norm.weight H
plain lm_head.weight V,H  # {HEAD}
copy model.layers.46.{{input,post_attention}}_layernorm.weight H
copy model.layers.46.{{enorm,hnorm,shared_head.norm}}.weight H
copy model.layers.46.embed_tokens.weight V,H  # {TABLE}
plain model.layers.46.eh_proj.weight H,2*H  # {NEXT}
plain model.layers.46.shared_head.head.weight V,H  # {NEXT}
plain model.layers.46.self_attn.q_proj.weight Q,H bias  # {NEXT}
plain model.layers.46.self_attn.{{k,v}}_proj.weight KV,H bias  # {NEXT}
plain model.layers.46.self_attn.o_proj.weight H,Q  # {NEXT}
plain model.layers.46.mlp.gate.weight E,H  # {NEXT}
copy model.layers.46.mlp.gate.e_score_correction_bias E dtype=F32
plain model.layers.46.mlp.experts.{{0-127}}.{{gate,up}}_proj.weight I,H  # {NEXT}
plain model.layers.46.mlp.experts.{{0-127}}.down_proj.weight H,I  # {NEXT}
plain model.layers.46.mlp.shared_experts.{{gate,up}}_proj.weight I,H  # {NEXT}
plain model.layers.46.mlp.shared_experts.down_proj.weight H,I  # {NEXT}
""",
}

GRANITE = {
    "name": "Granite 3.1 3B-A800M",
    "hub": "ibm-granite/granite-3.1-3b-a800m-instruct",
    "config": {
        "architectures": ["GraniteMoeForCausalLM"],
        "model_type": "granitemoe", "hidden_size": "$H",
        "intermediate_size": "$I", "num_attention_heads": 24,
        "num_hidden_layers": 32, "num_key_value_heads": 8,
        "num_local_experts": 40, "vocab_size": "$V",
        "tie_word_embeddings": True, "torch_dtype": "bfloat16"},
    "numbers": {"H": 1536, "I": 512, "V": 49155, "E": 40},
    "shards": 2,
    "rows": f"""
copy model.embed_tokens.weight V,H  # {TABLE}
copy model.layers.{{0-31}}.{{input,post_attention}}_layernorm.weight H
quant model.layers.{{0-31}}.self_attn.{{q,o}}_proj.weight H,H
quant model.layers.{{0-31}}.self_attn.{{k,v}}_proj.weight I,H
plain model.layers.{{0-31}}.block_sparse_moe.router.layer.weight E,H  # {ROUTER}
stack model.layers.{{0-31}}.block_sparse_moe.input_linear.weight E,2*I,H as experts.*.gate_proj+experts.*.up_proj
stack model.layers.{{0-31}}.block_sparse_moe.output_linear.weight E,H,I as experts.*.down_proj
copy model.norm.weight H
tied lm_head  # tied head: transformers builds it, a Linear with the embeddings' tensor
""",
}

_SLIDING = [n for n in range(45) if n % 4]
STEP = {
    "name": "Step-3.5 Flash",
    "hub": "stepfun-ai/Step-3.5-Flash",
    "config": {
        "architectures": ["Step3p5ForCausalLM"], "model_type": "step3p5",
        "hidden_size": "$H", "intermediate_size": "$D",
        "moe_intermediate_size": "$I", "moe_num_experts": 288, "moe_top_k": 8,
        "num_attention_groups": 8, "num_attention_heads": 64,
        "num_hidden_layers": 45, "num_nextn_predict_layers": 3,
        "share_expert_dim": "$I", "use_head_wise_attn_gate": True,
        "use_moe_router_bias": True, "vocab_size": "$V",
        "tie_word_embeddings": False, "torch_dtype": "bfloat16"},
    "numbers": {"H": 4096, "D": 11264, "I": 1280, "Q": 8192, "S": 12288,
                "KV": 1024, "V": 128896, "E": 288},
    "sets": {"FULL": [n for n in range(45) if n % 4 == 0],
             "SLIDING": _SLIDING, "DENSE": [0, 1, 2],
             "MOE": list(range(3, 45)), "NEXT": [45, 46, 47]},
    "shards": 44,
    "mapper": {"part": {".share_expert.": ".moe.share_expert."}},
    "rows": f"""
copy model.embed_tokens.weight V,H  # {TABLE}
copy model.layers.{{0-44}}.{{input,post_attention}}_layernorm.weight H
copy model.layers.{{0-44}}.self_attn.{{q,k}}_norm.weight 128
quant model.layers.{{FULL}}.self_attn.q_proj.weight Q,H
quant model.layers.{{FULL}}.self_attn.o_proj.weight H,Q
any model.layers.{{FULL}}.self_attn.g_proj.weight 64,H  # a gate of the attention; vLLM loads it quantized or not
quant model.layers.{{SLIDING}}.self_attn.q_proj.weight S,H
quant model.layers.{{SLIDING}}.self_attn.o_proj.weight H,S
any model.layers.{{SLIDING}}.self_attn.g_proj.weight 96,H  # a gate of the attention; vLLM loads it quantized or not
quant model.layers.{{0-44}}.self_attn.{{k,v}}_proj.weight KV,H
quant model.layers.{{DENSE}}.mlp.{{gate,up}}_proj.weight D,H
quant model.layers.{{DENSE}}.mlp.down_proj.weight H,D
plain model.layers.{{MOE}}.moe.gate.weight E,H dtype=F32  # {ROUTER}
copy model.layers.{{MOE}}.moe.router_bias E dtype=F32
stack model.layers.{{MOE}}.moe.gate_proj.weight E,I,H as experts.*.gate_proj
stack model.layers.{{MOE}}.moe.up_proj.weight E,I,H as experts.*.up_proj
stack model.layers.{{MOE}}.moe.down_proj.weight E,H,I as experts.*.down_proj
quant model.layers.{{MOE}}.share_expert.{{gate,up}}_proj.weight I,H
quant model.layers.{{MOE}}.share_expert.down_proj.weight H,I
copy model.norm.weight H
plain lm_head.weight V,H  # {HEAD}
copy model.layers.{{NEXT}}.{{enorm,hnorm,input_layernorm,post_attention_layernorm,transformer.shared_head.norm}}.weight H
copy model.layers.{{NEXT}}.self_attn.{{q,k}}_norm.weight 128
plain model.layers.{{NEXT}}.eh_proj.weight H,2*H  # {NEXT}
plain model.layers.{{NEXT}}.transformer.shared_head.output.weight V,H  # {NEXT}
plain model.layers.{{NEXT}}.self_attn.q_proj.weight S,H  # {NEXT}
plain model.layers.{{NEXT}}.self_attn.o_proj.weight H,S  # {NEXT}
plain model.layers.{{NEXT}}.self_attn.g_proj.weight 96,H  # {NEXT}
plain model.layers.{{NEXT}}.self_attn.{{k,v}}_proj.weight KV,H  # {NEXT}
plain model.layers.{{NEXT}}.mlp.{{gate,up}}_proj.weight D,H  # {NEXT}
plain model.layers.{{NEXT}}.mlp.down_proj.weight H,D  # {NEXT}
""",
}

MODELS = [MIXTRAL, QWEN3_MOE, QWEN3_NEXT, LLAMA4, GLM45, GRANITE, STEP]
