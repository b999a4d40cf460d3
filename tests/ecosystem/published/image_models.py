"""Tables of vision-language models, and of a diffusion model."""

HEAD = "output head: vLLM's ParallelLMHead"
TABLE = "a table that is looked up"
TOWER = "vision tower: nobody publishes it quantized"
JOIN = "projector"

QWEN25_VL = {
    "name": "Qwen2.5-VL 7B",
    "hub": "Qwen/Qwen2.5-VL-7B-Instruct",
    "config": {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl", "hidden_size": "$H",
        "intermediate_size": "$I", "num_attention_heads": 28,
        "num_key_value_heads": 4, "num_hidden_layers": 28, "vocab_size": "$V",
        "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "vision_config": {"depth": 32, "hidden_size": "$W",
                          "intermediate_size": "$F", "out_hidden_size": "$H",
                          "model_type": "qwen2_5_vl"}},
    "numbers": {"H": 3584, "I": 18944, "KV": 512, "V": 152064, "W": 1280,
                "F": 3420},
    "shards": 5,
    "mapper": {"prefix": {
        "model.language_model.": "language_model.model.",
        "model.visual.": "visual.", "lm_head.": "language_model.lm_head.",
        "model.": "language_model.model."}},
    "rows": f"""
copy visual.patch_embed.proj.weight W,3,2,14,14  # a convolution
copy visual.blocks.{{0-31}}.norm{{1,2}}.weight W
plain visual.blocks.{{0-31}}.attn.qkv.weight 3*W,W bias  # {TOWER}
plain visual.blocks.{{0-31}}.attn.proj.weight W,W bias  # {TOWER}
plain visual.blocks.{{0-31}}.mlp.{{gate,up}}_proj.weight F,W bias  # {TOWER}
plain visual.blocks.{{0-31}}.mlp.down_proj.weight W,F bias  # {TOWER}
copy visual.merger.ln_q.weight W
plain visual.merger.mlp.0.weight 4*W,4*W bias  # {JOIN}
plain visual.merger.mlp.2.weight H,4*W bias  # {JOIN}
copy model.embed_tokens.weight V,H  # {TABLE}
copy model.layers.{{0-27}}.{{input,post_attention}}_layernorm.weight H
quant model.layers.{{0-27}}.self_attn.{{q,o}}_proj.weight H,H
copy model.layers.{{0-27}}.self_attn.q_proj.bias H
quant model.layers.{{0-27}}.self_attn.{{k,v}}_proj.weight KV,H bias
quant model.layers.{{0-27}}.mlp.{{gate,up}}_proj.weight I,H
quant model.layers.{{0-27}}.mlp.down_proj.weight H,I
copy model.norm.weight H
plain lm_head.weight V,H  # {HEAD}
""",
}

QWEN3_VL_MOE = {
    "name": "Qwen3-VL 30B-A3B",
    "hub": "Qwen/Qwen3-VL-30B-A3B-Instruct",
    "config": {
        "architectures": ["Qwen3VLMoeForConditionalGeneration"],
        "model_type": "qwen3_vl_moe", "tie_word_embeddings": False,
        "text_config": {
            "model_type": "qwen3_vl_moe_text", "head_dim": 128,
            "hidden_size": "$H", "intermediate_size": 6144,
            "moe_intermediate_size": "$I", "num_attention_heads": 32,
            "num_experts": 128, "num_hidden_layers": 48,
            "num_key_value_heads": 4, "vocab_size": "$V"},
        "vision_config": {
            "deepstack_visual_indexes": [8, 16, 24], "depth": 27,
            "hidden_size": "$W", "intermediate_size": "$F",
            "model_type": "qwen3_vl_moe", "num_position_embeddings": 2304,
            "out_hidden_size": "$H", "patch_size": 16}},
    "numbers": {"H": 2048, "I": 768, "Q": 4096, "KV": 512, "V": 151936,
                "E": 128, "W": 1152, "F": 4304},
    "shards": 13,
    "mapper": {"prefix": {
        "model.visual.": "visual.", "lm_head.": "language_model.lm_head.",
        "model.language_model.": "language_model.model."}},
    "rows": f"""
copy model.visual.patch_embed.proj.weight W,3,2,16,16 bias  # a convolution
copy model.visual.pos_embed.weight 2304,W  # {TABLE}
copy model.visual.blocks.{{0-26}}.norm{{1,2}}.{{weight,bias}} W
plain model.visual.blocks.{{0-26}}.attn.qkv.weight 3*W,W bias  # {TOWER}
plain model.visual.blocks.{{0-26}}.attn.proj.weight W,W bias  # {TOWER}
plain model.visual.blocks.{{0-26}}.mlp.linear_fc1.weight F,W bias  # {TOWER}
plain model.visual.blocks.{{0-26}}.mlp.linear_fc2.weight W,F bias  # {TOWER}
copy model.visual.merger.norm.{{weight,bias}} W
copy model.visual.deepstack_merger_list.{{0-2}}.norm.{{weight,bias}} 4*W
plain model.visual.{{merger,deepstack_merger_list.0,deepstack_merger_list.1,deepstack_merger_list.2}}.linear_fc1.weight 4*W,4*W bias  # {JOIN}
plain model.visual.{{merger,deepstack_merger_list.0,deepstack_merger_list.1,deepstack_merger_list.2}}.linear_fc2.weight H,4*W bias  # {JOIN}
copy model.language_model.embed_tokens.weight V,H  # {TABLE}
copy model.language_model.layers.{{0-47}}.{{input,post_attention}}_layernorm.weight H
copy model.language_model.layers.{{0-47}}.self_attn.{{q,k}}_norm.weight 128
quant model.language_model.layers.{{0-47}}.self_attn.q_proj.weight Q,H
quant model.language_model.layers.{{0-47}}.self_attn.{{k,v}}_proj.weight KV,H
quant model.language_model.layers.{{0-47}}.self_attn.o_proj.weight H,Q
plain model.language_model.layers.{{0-47}}.mlp.gate.weight E,H  # routers: vLLM's GateLinear, never quantized
stack model.language_model.layers.{{0-47}}.mlp.experts.gate_up_proj E,H,2*I as *.gate_proj+*.up_proj!
stack model.language_model.layers.{{0-47}}.mlp.experts.down_proj E,I,H as *.down_proj!
copy model.language_model.norm.weight H
plain lm_head.weight V,H  # {HEAD}
""",
}

GEMMA3 = {
    "name": "Gemma 3 4B",
    "hub": "google/gemma-3-4b-it",
    # Without tie_word_embeddings, which is true by default in this class.
    "config": {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3", "mm_tokens_per_image": 256,
        "text_config": {"hidden_size": "$H", "intermediate_size": "$I",
                        "model_type": "gemma3_text", "num_hidden_layers": 34,
                        "sliding_window": 1024},
        "vision_config": {"hidden_size": "$W", "image_size": 896,
                          "intermediate_size": "$F",
                          "model_type": "siglip_vision_model",
                          "num_hidden_layers": 27, "patch_size": 14},
        "torch_dtype": "bfloat16"},
    "numbers": {"H": 2560, "I": 10240, "Q": 2048, "KV": 1024, "V": 262208,
                "W": 1152, "F": 4304},
    "shards": 2,
    "mapper": {"prefix": {
        "model.language_model.": "language_model.model.",
        "model.vision_tower.": "vision_tower.",
        "model.multi_modal_projector.": "multi_modal_projector.",
        "lm_head.": "language_model.lm_head."}},
    "rows": f"""
copy language_model.model.embed_tokens.weight V,H  # {TABLE}
copy language_model.model.layers.{{0-33}}.{{input,post_attention,pre_feedforward,post_feedforward}}_layernorm.weight H
copy language_model.model.layers.{{0-33}}.self_attn.{{q,k}}_norm.weight 256
quant language_model.model.layers.{{0-33}}.self_attn.q_proj.weight Q,H
quant language_model.model.layers.{{0-33}}.self_attn.{{k,v}}_proj.weight KV,H
quant language_model.model.layers.{{0-33}}.self_attn.o_proj.weight H,Q
quant language_model.model.layers.{{0-33}}.mlp.{{gate,up}}_proj.weight I,H
quant language_model.model.layers.{{0-33}}.mlp.down_proj.weight H,I
copy language_model.model.norm.weight H
copy multi_modal_projector.mm_input_projection_weight W,H  # no Linear: a parameter of K rows of N
copy multi_modal_projector.mm_soft_emb_norm.weight W
copy vision_tower.vision_model.embeddings.patch_embedding.weight W,3,14,14 bias  # a convolution
copy vision_tower.vision_model.embeddings.position_embedding.weight 4096,W  # {TABLE}
copy vision_tower.vision_model.encoder.layers.{{0-26}}.layer_norm{{1,2}}.{{weight,bias}} W
plain vision_tower.vision_model.encoder.layers.{{0-26}}.self_attn.{{q,k,v,out}}_proj.weight W,W bias  # {TOWER}
plain vision_tower.vision_model.encoder.layers.{{0-26}}.mlp.fc1.weight F,W bias  # {TOWER}
plain vision_tower.vision_model.encoder.layers.{{0-26}}.mlp.fc2.weight W,F bias  # {TOWER}
copy vision_tower.vision_model.post_layernorm.{{weight,bias}} W
tied lm_head  # tied head: transformers builds it, and config.json does not say so
""",
}

INTERNVL3 = {
    "name": "InternVL3 8B",
    "hub": "OpenGVLab/InternVL3-8B",
    "config": {
        "architectures": ["InternVLChatModel"], "model_type": "internvl_chat",
        "downsample_ratio": 0.5, "select_layer": -1, "ps_version": "v2",
        "llm_config": {"architectures": ["Qwen2ForCausalLM"],
                       "model_type": "qwen2", "hidden_size": "$H",
                       "intermediate_size": "$I", "num_hidden_layers": 28,
                       "tie_word_embeddings": False, "vocab_size": "$V"},
        "vision_config": {"architectures": ["InternVisionModel"],
                          "hidden_size": "$W", "intermediate_size": "$F",
                          "model_type": "intern_vit_6b",
                          "num_hidden_layers": 24},
        "tie_word_embeddings": False, "torch_dtype": "bfloat16"},
    "numbers": {"H": 3584, "I": 18944, "KV": 512, "V": 151674, "W": 1024,
                "F": 4096},
    "shards": 4,
    "rows": f"""
copy vision_model.embeddings.class_embedding 1,1,W
copy vision_model.embeddings.position_embedding 1,1025,W
copy vision_model.embeddings.patch_embedding.weight W,3,14,14 bias  # a convolution
copy vision_model.encoder.layers.{{0-23}}.{{ls1,ls2}} W
copy vision_model.encoder.layers.{{0-23}}.{{norm1,norm2}}.{{weight,bias}} W
plain vision_model.encoder.layers.{{0-23}}.attn.qkv.weight 3*W,W bias  # {TOWER}
plain vision_model.encoder.layers.{{0-23}}.attn.proj.weight W,W bias  # {TOWER}
plain vision_model.encoder.layers.{{0-23}}.mlp.fc1.weight F,W bias  # {TOWER}
plain vision_model.encoder.layers.{{0-23}}.mlp.fc2.weight W,F bias  # {TOWER}
copy mlp1.0.{{weight,bias}} 4*W
plain mlp1.1.weight H,4*W bias  # {JOIN}: in vLLM and SGLang a Linear of PyTorch
plain mlp1.3.weight H,H bias  # {JOIN}: in vLLM and SGLang a Linear of PyTorch
copy language_model.model.embed_tokens.weight V,H  # {TABLE}
copy language_model.model.layers.{{0-27}}.{{input,post_attention}}_layernorm.weight H
quant language_model.model.layers.{{0-27}}.self_attn.{{q,o}}_proj.weight H,H
copy language_model.model.layers.{{0-27}}.self_attn.q_proj.bias H
quant language_model.model.layers.{{0-27}}.self_attn.{{k,v}}_proj.weight KV,H bias
quant language_model.model.layers.{{0-27}}.mlp.{{gate,up}}_proj.weight I,H
quant language_model.model.layers.{{0-27}}.mlp.down_proj.weight H,I
copy language_model.model.norm.weight H
plain language_model.lm_head.weight V,H  # {HEAD}
""",
}

MINICPM_V = {
    "name": "MiniCPM-V 2.6",
    "hub": "openbmb/MiniCPM-V-2_6",
    "config": {
        "architectures": ["MiniCPMV"], "model_type": "minicpmv",
        "version": 2.6, "hidden_size": "$H", "intermediate_size": "$I",
        "num_attention_heads": 28, "num_key_value_heads": 4,
        "num_hidden_layers": 28, "query_num": 64, "vocab_size": "$V",
        "vision_config": {"hidden_size": "$W", "intermediate_size": "$F",
                          "model_type": "siglip", "num_hidden_layers": 27},
        "tie_word_embeddings": False, "torch_dtype": "bfloat16"},
    "numbers": {"H": 3584, "I": 18944, "KV": 512, "V": 151666, "W": 1152,
                "F": 4304},
    "shards": 4,
    "rows": f"""
copy llm.model.embed_tokens.weight V,H  # {TABLE}
copy llm.model.layers.{{0-27}}.{{input,post_attention}}_layernorm.weight H
quant llm.model.layers.{{0-27}}.self_attn.{{q,o}}_proj.weight H,H
copy llm.model.layers.{{0-27}}.self_attn.q_proj.bias H
quant llm.model.layers.{{0-27}}.self_attn.{{k,v}}_proj.weight KV,H bias
quant llm.model.layers.{{0-27}}.mlp.{{gate,up}}_proj.weight I,H
quant llm.model.layers.{{0-27}}.mlp.down_proj.weight H,I
copy llm.model.norm.weight H
plain llm.lm_head.weight V,H  # {HEAD}
copy resampler.query 64,H
copy resampler.attn.in_proj_weight 3*H,H  # torch's MultiheadAttention
copy resampler.attn.in_proj_bias 3*H
plain resampler.attn.out_proj.weight H,H bias  # {JOIN}: PyTorch's MultiheadAttention
plain resampler.kv_proj.weight H,W  # {JOIN}
copy resampler.{{ln_q,ln_kv,ln_post}}.{{weight,bias}} H
copy resampler.proj H,H  # no Linear: a parameter of K rows of N
copy vpm.embeddings.patch_embedding.weight W,3,14,14 bias  # a convolution
copy vpm.embeddings.position_embedding.weight 4900,W  # {TABLE}
copy vpm.encoder.layers.{{0-26}}.layer_norm{{1,2}}.{{weight,bias}} W
plain vpm.encoder.layers.{{0-26}}.self_attn.{{q,k,v,out}}_proj.weight W,W bias  # {TOWER}
plain vpm.encoder.layers.{{0-26}}.mlp.fc1.weight F,W bias  # {TOWER}
plain vpm.encoder.layers.{{0-26}}.mlp.fc2.weight W,F bias  # {TOWER}
copy vpm.post_layernorm.{{weight,bias}} W
""",
}

FLUX = {
    "name": "FLUX.1 dev, one file",
    "hub": "black-forest-labs/FLUX.1-dev (flux1-dev.safetensors)",
    "config": None,
    "stem": "flux1-dev",
    "numbers": {"H": 3072, "M": 12288, "C": 4096, "P": 768},
    "shards": 0,
    "runs": [{"dialect": "comfy", "format": "nvfp4"}],
    "rows": """
plain img_in.weight H,64  # input layers
plain txt_in.weight H,C  # input layers
copy {img,txt}_in.bias H
plain {time,guidance}_in.in_layer.weight H,256  # embedders: of a number
plain vector_in.in_layer.weight H,P  # embedders: of a sentence
copy {time,vector,guidance}_in.in_layer.bias H
plain {time,vector,guidance}_in.out_layer.weight H,H bias  # embedders: their second layers
any double_blocks.{0-18}.{img,txt}_mod.lin.weight 6*H,H bias  # shift and scale of a block
quant double_blocks.{0-18}.{img,txt}_attn.qkv.weight 3*H,H bias
quant double_blocks.{0-18}.{img,txt}_attn.proj.weight H,H bias
copy double_blocks.{0-18}.{img,txt}_attn.norm.{query,key}_norm.scale 128
quant double_blocks.{0-18}.{img,txt}_mlp.0.weight M,H bias
quant double_blocks.{0-18}.{img,txt}_mlp.2.weight H,M bias
any single_blocks.{0-37}.modulation.lin.weight 3*H,H bias  # shift and scale of a block
quant single_blocks.{0-37}.linear1.weight 3*H+M,H bias
quant single_blocks.{0-37}.linear2.weight H,H+M bias
copy single_blocks.{0-37}.norm.{query,key}_norm.scale 128
plain final_layer.linear.weight 64,H bias  # output layers
any final_layer.adaLN_modulation.1.weight 2*H,H bias  # shift and scale
""",
}

DIFFUSERS = {
    "name": "FLUX.1 dev, diffusers",
    "hub": "black-forest-labs/FLUX.1-dev (transformer)",
    "config": {"_class_name": "FluxTransformer2DModel",
               "_diffusers_version": "0.30.0.dev0", "attention_head_dim": 128,
               "guidance_embeds": True, "in_channels": 64,
               "joint_attention_dim": 4096, "num_attention_heads": 24,
               "num_layers": 19, "num_single_layers": 38, "patch_size": 1,
               "pooled_projection_dim": 768},
    "stem": "diffusion_pytorch_model",
    "numbers": FLUX["numbers"],
    "shards": 3,
    "parts": False,
    "rows": """
plain x_embedder.weight H,64  # input layers
plain context_embedder.weight H,C  # input layers
copy {x,context}_embedder.bias H
plain time_text_embed.{timestep,guidance}_embedder.linear_1.weight H,256  # embedders: of a number
plain time_text_embed.text_embedder.linear_1.weight H,P  # embedders: of a sentence
copy time_text_embed.{timestep,guidance,text}_embedder.linear_1.bias H
plain time_text_embed.{timestep,guidance,text}_embedder.linear_2.weight H,H bias  # embedders: their second layers
any transformer_blocks.{0-18}.{norm1,norm1_context}.linear.weight 6*H,H bias  # shift and scale of a block
quant transformer_blocks.{0-18}.attn.{to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out}.weight H,H bias
copy transformer_blocks.{0-18}.attn.{norm_q,norm_k,norm_added_q,norm_added_k}.weight 128
quant transformer_blocks.{0-18}.{ff,ff_context}.net.0.proj.weight M,H bias
quant transformer_blocks.{0-18}.{ff,ff_context}.net.2.weight H,M bias
any single_transformer_blocks.{0-37}.norm.linear.weight 3*H,H bias  # shift and scale of a block
quant single_transformer_blocks.{0-37}.attn.{to_q,to_k,to_v}.weight H,H bias
copy single_transformer_blocks.{0-37}.attn.{norm_q,norm_k}.weight 128
quant single_transformer_blocks.{0-37}.proj_mlp.weight M,H bias
quant single_transformer_blocks.{0-37}.proj_out.weight H,H+M bias
any norm_out.linear.weight 2*H,H bias  # shift and scale
plain proj_out.weight 64,H bias  # output layers
""",
}

MODELS = [QWEN25_VL, QWEN3_VL_MOE, GEMMA3, INTERNVL3, MINICPM_V, FLUX, DIFFUSERS]
