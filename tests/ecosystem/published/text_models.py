"""Tables of dense language models, T5, Whisper and a sentence encoder."""

HEAD = "output head: vLLM's ParallelLMHead"
TABLE = "a table that is looked up"

LLAMA = {
    "name": "Llama 3.1 8B",
    "hub": "meta-llama/Llama-3.1-8B",
    "config": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": "$H", "intermediate_size": "$I",
        "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_hidden_layers": 32, "vocab_size": "$V",
        "tie_word_embeddings": False, "torch_dtype": "bfloat16"},
    "numbers": {"H": 4096, "I": 14336, "KV": 1024, "V": 128256},
    "shards": 4,
    "rows": f"""
copy model.embed_tokens.weight V,H  # {TABLE}
copy model.layers.{{0-31}}.{{input,post_attention}}_layernorm.weight H
quant model.layers.{{0-31}}.self_attn.{{q,o}}_proj.weight H,H
quant model.layers.{{0-31}}.self_attn.{{k,v}}_proj.weight KV,H
quant model.layers.{{0-31}}.mlp.{{gate,up}}_proj.weight I,H
quant model.layers.{{0-31}}.mlp.down_proj.weight H,I
copy model.norm.weight H
plain lm_head.weight V,H  # {HEAD}
""",
}

QWEN3 = {
    "name": "Qwen3 4B",
    "hub": "Qwen/Qwen3-4B",
    "config": {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
        "head_dim": 128, "hidden_size": "$H", "intermediate_size": "$I",
        "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_hidden_layers": 36, "vocab_size": "$V",
        "tie_word_embeddings": True, "torch_dtype": "bfloat16"},
    "numbers": {"H": 2560, "I": 9728, "Q": 4096, "KV": 1024, "V": 151936},
    "shards": 3,
    "rows": f"""
copy model.embed_tokens.weight V,H  # {TABLE}
copy model.layers.{{0-35}}.{{input,post_attention}}_layernorm.weight H
copy model.layers.{{0-35}}.self_attn.{{q,k}}_norm.weight 128
quant model.layers.{{0-35}}.self_attn.q_proj.weight Q,H
quant model.layers.{{0-35}}.self_attn.{{k,v}}_proj.weight KV,H
quant model.layers.{{0-35}}.self_attn.o_proj.weight H,Q
quant model.layers.{{0-35}}.mlp.{{gate,up}}_proj.weight I,H
quant model.layers.{{0-35}}.mlp.down_proj.weight H,I
copy model.norm.weight H
tied lm_head  # tied head: transformers builds it, a Linear with the embeddings' tensor
""",
}

T5 = {
    "name": "Flan-T5 base",
    "hub": "google/flan-t5-base",
    "config": {
        "architectures": ["T5ForConditionalGeneration"], "model_type": "t5",
        "d_ff": "$F", "d_kv": 64, "d_model": "$H", "num_heads": 12,
        "num_layers": 12, "num_decoder_layers": 12,
        "feed_forward_proj": "gated-gelu", "is_encoder_decoder": True,
        "tie_word_embeddings": False, "vocab_size": "$V"},
    "dtype": "F32",
    "numbers": {"H": 768, "F": 2048, "V": 32128},
    "shards": 0,
    "rows": f"""
copy shared.weight V,H  # {TABLE}
copy {{encoder,decoder}}.embed_tokens.weight V,H  # {TABLE}
quant {{encoder,decoder}}.block.{{0-11}}.layer.0.SelfAttention.{{q,k,v,o}}.weight H,H
copy {{encoder,decoder}}.block.0.layer.0.SelfAttention.relative_attention_bias.weight 32,12  # {TABLE}
copy {{encoder,decoder}}.block.{{0-11}}.layer.{{0,1}}.layer_norm.weight H
quant encoder.block.{{0-11}}.layer.1.DenseReluDense.{{wi_0,wi_1}}.weight F,H
quant encoder.block.{{0-11}}.layer.1.DenseReluDense.wo.weight H,F
quant decoder.block.{{0-11}}.layer.1.EncDecAttention.{{q,k,v,o}}.weight H,H
quant decoder.block.{{0-11}}.layer.2.DenseReluDense.{{wi_0,wi_1}}.weight F,H
quant decoder.block.{{0-11}}.layer.2.DenseReluDense.wo.weight H,F
copy decoder.block.{{0-11}}.layer.2.layer_norm.weight H
copy {{encoder,decoder}}.final_layer_norm.weight H
plain lm_head.weight V,H  # {HEAD}
""",
}

WHISPER = {
    "name": "Whisper large v3",
    "hub": "openai/whisper-large-v3",
    "config": {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper", "d_model": "$H",
        "encoder_attention_heads": 20, "decoder_attention_heads": 20,
        "encoder_layers": 32, "decoder_layers": 32, "encoder_ffn_dim": "$F", "decoder_ffn_dim": "$F",
        "num_hidden_layers": 32, "num_mel_bins": 128, "vocab_size": "$V",
        "is_encoder_decoder": True, "torch_dtype": "float16"},
    "dtype": "F16",
    "numbers": {"H": 1280, "F": 5120, "V": 51866},
    "shards": 0,
    "mapper": {"part": {".fc1": ".mlp.fc1", ".fc2": ".mlp.fc2"}},
    "rows": f"""
copy model.encoder.conv1.weight H,128,3  # a convolution
copy model.encoder.conv2.weight H,H,3  # a convolution
copy model.encoder.conv{{1,2}}.bias H
copy model.encoder.embed_positions.weight 1500,H  # {TABLE}
copy model.decoder.embed_positions.weight 448,H  # {TABLE}
copy model.decoder.embed_tokens.weight V,H  # {TABLE}
quant model.{{encoder,decoder}}.layers.{{0-31}}.self_attn.{{q,k,v,out}}_proj.weight H,H
copy model.{{encoder,decoder}}.layers.{{0-31}}.self_attn.{{q,v,out}}_proj.bias H
quant model.decoder.layers.{{0-31}}.encoder_attn.{{q,k,v,out}}_proj.weight H,H
copy model.decoder.layers.{{0-31}}.encoder_attn.{{q,v,out}}_proj.bias H
quant model.{{encoder,decoder}}.layers.{{0-31}}.fc1.weight F,H
quant model.{{encoder,decoder}}.layers.{{0-31}}.fc2.weight H,F
copy model.{{encoder,decoder}}.layers.{{0-31}}.fc1.bias F
copy model.{{encoder,decoder}}.layers.{{0-31}}.fc2.bias H
copy model.{{encoder,decoder}}.layers.{{0-31}}.{{self_attn,final}}_layer_norm.{{weight,bias}} H
copy model.decoder.layers.{{0-31}}.encoder_attn_layer_norm.{{weight,bias}} H
copy model.{{encoder,decoder}}.layer_norm.{{weight,bias}} H
tied proj_out  # tied head: Whisper's always is, and config.json does not say so
""",
}

ENCODER = {
    "name": "BGE base, a sentence encoder",
    "hub": "BAAI/bge-base-en-v1.5",
    "config": {
        "architectures": ["BertModel"], "model_type": "bert",
        "hidden_size": "$H", "intermediate_size": "$I",
        "num_attention_heads": 12, "num_hidden_layers": 12,
        "vocab_size": "$V", "torch_dtype": "float32"},
    "dtype": "F32",
    "numbers": {"H": 768, "I": 3072, "V": 30522},
    "shards": 0,
    "others": {"modules.json": "[]", "1_Pooling/config.json": "{}"},
    "rows": f"""
copy embeddings.position_ids 1,512 dtype=I64
copy embeddings.word_embeddings.weight V,H  # {TABLE}
copy embeddings.position_embeddings.weight 512,H  # {TABLE}
copy embeddings.token_type_embeddings.weight 2,H  # {TABLE}
copy embeddings.LayerNorm.{{weight,bias}} H
quant encoder.layer.{{0-11}}.attention.self.{{query,key,value}}.weight H,H bias
quant encoder.layer.{{0-11}}.attention.output.dense.weight H,H bias
quant encoder.layer.{{0-11}}.intermediate.dense.weight I,H bias
quant encoder.layer.{{0-11}}.output.dense.weight H,I bias
copy encoder.layer.{{0-11}}.{{attention.output,output}}.LayerNorm.{{weight,bias}} H
plain pooler.dense.weight H,H bias  # pooler: a head of BERT's, which sentences do not use
""",
}

MODELS = [LLAMA, QWEN3, T5, WHISPER, ENCODER]
