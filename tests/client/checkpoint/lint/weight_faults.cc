#include <algorithm>

#include "tests/client/checkpoint/fault.h"

namespace quantd::checkpoint {

std::vector<Fault> WeightFaults() {
  const Base ct = Base::kCompressedTensors;
  return {
      {"not-a-number", Base::kFp8,
       [](Planted& p) { p.part(kQ + ".weight").bytes[99] = std::byte{0xFF}; },
       "1 of 2048 codes are NaN"},
      {"not-a-number", ct,
       [](Planted& p) {
         auto& bytes = p.part("model.norm.weight").bytes;
         bytes[20] = std::byte{0x80};
         bytes[21] = std::byte{0x7F};
       },
       "1 of 64 values are NaN or infinite"},
      {"dead-weight", ct, Fill(kQ + ".weight_packed", 0),
       "all its values are zeros"},
      {"dead-weight", ct, Fill(kQ + ".weight_packed", 0, 512),
       "16 of 32 rows are all zeros"},
      {"dead-weight", ct, Fill("model.embed_tokens.weight", 0),
       "all its values are zeros"},
      {"dead-weight", ct, Fill("model.norm.weight", 0),
       "all its values are zeros"},
      {"clipped", ct, Fill(kQ + ".weight_packed", 0xF7, 256),
       "are the largest code of the format"},
      {"clipped", Base::kFp8, Fill(kQ + ".weight", 0xFE, 1900),
       "are the largest code of the format"},
      {"missing-weight", ct, Erase("model.norm.weight"), "every model"},
      {"missing-weight", ct, Erase("lm_head.weight"), "does not tie it"},
      {"missing-weight", ct,
       Model_([](ModelJson& c) { c["num_hidden_layers"] = 2; }),
       "the layer has no tensors"},
      {"missing-weight", ct,
       [](Planted& p) {
         p.config["num_hidden_layers"] = 2;
         for (const char* leaf : {"k_norm", "q_norm"}) {
           const std::string name =
               fmt::format("model.layers.1.self_attn.{}.weight", leaf);
           p.tensors[name] = Bf16(name, {32});
         }
       },
       "every other layer has it"},
      {"missing-weight", ct,
       Model_([](ModelJson& c) { c["attention_bias"] = true; }),
       "config.json sets attention_bias to true"},
      {"missing-weight", ct,
       [](Planted& p) {
         p.config["intermediate_size"] = 32;
         p.config["quantization_config"]["ignore"].push_back("re:.*mlp.*");
         Put("model.layers.0.mlp.down_proj.weight", {64, 32})(p);
       },
       "it is missing, although every model of this type has it"},
      {"missing-weight", ct,
       [](Planted& p) {
         p.config["intermediate_size"] = 32;
         p.config["quantization_config"]["ignore"].push_back("re:.*mlp.*");
         p.config["quantization_config"]["ignore"].push_back("re:.*o_proj");
         const std::string layer = "model.layers.0.";
         Put(layer + "mlp.down_proj.weight", {64, 32})(p);
         Put(layer + "mlp.gate_proj.weight", {32, 64})(p);
         Put(layer + "self_attn.o_proj.weight", {64, 32})(p);
         Put(layer + "input_layernorm.weight", {64})(p);
         Put(layer + "post_attention_layernorm.weight", {64})(p);
       },
       "missing-weight model.layers.0.mlp.up_proj.weight: it is missing, "
       "although every model of this type has it (1)"},
      {"missing-weight", ct,
       Put("model.layers.0.block_sparse_moe.gate.weight", {2, 64}),
       "layers of a llama have no block_sparse_moe"},
      {"one-sign", ct,
       [](Planted& p) {
         for (std::byte& b : p.part(kQ + ".weight_packed").bytes) {
           b &= std::byte{0x77};
         }
       },
       "none of its 2048 codes is negative"},
      {"wrapped-names", ct,
       [](Planted& p) {
         for (const char* leaf : {"q_proj", "k_proj", "v_proj"}) {
           for (const char* end : {"_packed", "_scale", "_global_scale"}) {
             const std::string name =
                 fmt::format("layers.0.self_attn.{}.weight{}", leaf, end);
             Rename(&p, "model." + name, name);
           }
         }
       },
       "in a llama, engines expect its name to begin with \"model.\" once"},
      {"missing-weight", ct, Expert(0, {}),
       "it has 1 experts, numbered up to 1"},
      {"wrong-shape", ct, Expert(1, {64, 16}), "[64, 16]"},
      {"wrong-shape", ct,
       Model_([](ModelJson& c) { c["num_key_value_heads"] = 2; }),
       "[32, 64], but should be [64, 64] according to config.json"},
      {"wrong-shape", ct, Put(kQ + ".bias", {16}), "to fit its weight"},
      {"missing-weight", ct, Erase(kQ + ".weight_packed"),
       "the weight that it scales does not"},
      {"missing-weight", ct, Erase("lm_head.weight"),
       "it is missing, although config.json does not tie it to the embeddings"},
      {"missing-weight", ct,
       [](Planted& p) {
         p.tensors.erase("lm_head.weight");
         p.config["model_type"] = "made_up";
       },
       "it is missing, although config.json does not tie it to the embeddings"},
      {"missing-weight", ct,
       [](Planted& p) {
         p.tensors.erase("lm_head.weight");
         p.config.erase("tie_word_embeddings");
       },
       "it is missing, although models of this type do not tie it"},
      {"tied-head", ct,
       Model_([](ModelJson& c) { c["tie_word_embeddings"] = true; }),
       "another matrix"},
      {"tied-head", ct,
       [](Planted& p) {
         p.config["tie_word_embeddings"] = true;
         p.tensors.erase("lm_head.weight");
         for (const WrittenTensor& t :
              MakeNvfp4("lm_head", 16, 64, p.names).parts) {
           p.tensors[t.name] = t;
         }
       },
       "another matrix"},
      {"wrapped-names", ct,
       [](Planted& p) {
         Rename(&p, "model.norm.weight", "module.model.norm.weight");
       },
       "begins with \"module.\""},
      {"wrapped-names", ct, Put(kQ + ".lora_A.weight", {8, 64}),
       "an adapter that was not merged"},
  };
}

std::vector<Fault> OriginalFaults() {
  const Base ct = Base::kCompressedTensors;
  const Base mo = Base::kModelOpt;
  return {
      {"nibble-order", mo,
       [](Planted& p) {
         for (std::byte& b : p.part(kQ + ".weight").bytes) b = b >> 4 | b << 4;
       },
       "with the halves of bytes swapped", true},
      {"not-the-original", ct,
       [](Planted& p) {
         auto& scales = p.part(kQ + ".weight_scale").bytes;
         std::rotate(scales.begin(), scales.begin() + 37, scales.end());
       },
       "q_proj: its error is", true},
      // A fault in one row among many.
      {"not-the-original", ct,
       [](Planted& p) {
         auto& codes = p.part(kQ + ".weight_packed").bytes;
         for (size_t i = 30 * 32; i < 31 * 32; ++i) codes[i] ^= std::byte{0x88};
       },
       "1 of the 32 rows examined are mostly error (row 30)", true},
      // Scales that are wrong by a few percent, and a single wrong scale.
      {"not-the-original", ct, Set(kQ + ".weight_global_scale", 2688 / 0.525f),
       "its numbers are 1.05 times as large", true},
      {"not-the-original", Base::kFp8,
       Set(kQ + ".weight_scale", 1.03f * 0.5f / 448),
       "its numbers are 1.03 times as large", true},
      {"not-the-original", Base::kDeepSeek,
       Set(kQ + ".weight_scale_inv", 0.97f * 0.5f / 448),
       "its numbers are 0.97 times as large", true},
      {"not-the-original", ct,
       [](Planted& p) {
         p.part(kQ + ".weight_scale").bytes[17 * 4 + 3] ^= std::byte{0x08};
       },
       "1 of the 128 scales examined (for row 17, columns 48 to 63)", true},
      // Single wrong codes.
      {"not-the-original", ct,
       [](Planted& p) {
         // The first 2 becomes -2, or the reverse.
         for (std::byte& b : p.part(kQ + ".weight_packed").bytes) {
           if ((b & std::byte{7}) != std::byte{4}) continue;
           b ^= std::byte{8};
           break;
         }
       },
       "1 of the 2048 codes examined (in row 0, column", true},
      {"not-the-original", Base::kFp8,
       [](Planted& p) {
         auto& codes = p.part(kQ + ".weight").bytes;
         codes[3 * 64 + 5] = std::byte{0x58};
         codes[3 * 64 + 6] = std::byte{0x58};
       },
       "2 of the 2048 codes examined (the first is in row 3, column 5)", true},
      // FP8 codes whose two lowest bits are lost.
      {"not-the-original", Base::kFp8,
       [](Planted& p) {
         for (std::byte& b : p.part(kQ + ".weight").bytes) {
           b = (b & std::byte{0xFC}) | std::byte{0x02};
         }
       },
       "but rounding with its scales cannot give less than", true},
      {"not-the-original", ct, Set(kQ + ".weight_global_scale", 2688 / 0.55f),
       "1.1 times as large", true},
      {"not-the-original", ct,
       [](Planted& p) {
         p.tensors["model.norm.weight"] = Bf16("model.norm.weight", {64}, 1);
       },
       "it is not quantized, but 64 of its numbers changed; its error", true},
      {"no-counterpart", ct,
       [](Planted& p) {
         for (const char* end : {"_packed", "_scale", "_global_scale"}) {
           Rename(&p, kV + ".weight" + end,
                  std::string(kAttention) + "w_proj.weight" + end);
         }
       },
       "the original has no weight of that name with the shape 32 x 64", true},
      {"no-counterpart", ct,
       Put("model.layers.0.self_attn.rotary_emb.inv_freq", {16}),
       "the original has no such tensor", true},
      {"not-the-original", ct,
       [](Planted& p) { p.part("model.norm.weight").bytes[0] ^= std::byte{1}; },
       "it is not quantized, but 1 of its numbers changed", true},
      // Neither file states whether the head is tied.
      {"no-counterpart", ct,
       [](Planted& p) {
         p.tensors.erase("lm_head.weight");
         p.config["model_type"] = "made_up";
         p.config.erase("tie_word_embeddings");
       },
       "lm_head.weight: the original has it, but the model does not", true},
      {"config-original", ct,
       [](Planted& p) {
         p.config["model_type"] = "made_up";
         p.config.erase("tie_word_embeddings");
       },
       "\"tie_word_embeddings\" is missing, but false in the original", true},
      {"no-counterpart", ct, Erase("model.embed_tokens.weight"),
       "the model does not", true},
  };
}

}  // namespace quantd::checkpoint
