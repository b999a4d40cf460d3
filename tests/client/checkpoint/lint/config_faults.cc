#include "tests/client/checkpoint/fault.h"

namespace quantd::checkpoint {

std::vector<Fault> ConfigFaults() {
  const Base ct = Base::kCompressedTensors;
  const Base mo = Base::kModelOpt;
  return {
      {"config", mo, Own([](ModelJson& q) { q.erase("group_size"); }),
       "\"group_size\" is missing"},
      {"config", mo, Own([](ModelJson& q) { q.erase("exclude_modules"); }),
       "\"exclude_modules\" is missing"},
      {"config", ct,
       Model_([](ModelJson& c) { c.erase("quantization_config"); }),
       "no quantization_config"},
      {"config", ct, Model_([](ModelJson& c) { c.erase("model_type"); }),
       "\"model_type\" is missing"},
      {"config", ct, Model_([](ModelJson& c) { c.erase("architectures"); }),
       "\"architectures\" is missing"},
      {"config-type", ct, Model_([](ModelJson& c) { c["hidden_size"] = -1; }),
       "\"hidden_size\" is -1, but should be more than 0"},
      {"config-original", ct, Model_([](ModelJson& c) {
         c.erase("rope_theta");
         c["rope_parameters"] = {{"rope_theta", 500000}};
       }),
       "\"rope_theta\" is 500000, but 10000.0 in the original", true},
      {"config-original", ct, Model_([](ModelJson& c) {
         c["rope_parameters"] = {{"rope_theta", 500000}};
       }),
       "\"/rope_parameters/rope_theta\" is 500000, but missing", true},
      {"config-original", ct,
       Model_([](ModelJson& c) { c["num_experts_per_tok"] = 1; }),
       "\"num_experts_per_tok\" is 1, but 2 in the original", true},
      {"config-original", ct,
       Model_([](ModelJson& c) { c.erase("num_experts_per_tok"); }),
       "\"num_experts_per_tok\" is missing, but 2 in the original", true},
      {"config-original", ct, Model_([](ModelJson& c) {
         c["rope_scaling"] = {{"type", "yarn"}};
       }),
       "\"rope_type\" is \"yarn\", but missing in the original", true},
      {"config-original", ct,
       Model_([](ModelJson& c) { c.erase("model_type"); }),
       "\"model_type\" is missing, but \"llama\" in the original", true},
      {"config-original", ct,
       Model_([](ModelJson& c) { c["sliding_window"] = 64; }),
       "\"sliding_window\" is 64, but missing in the original", true},
      {"config-original", ct, Model_([](ModelJson& c) {
         c["vision_config"]["layers"] = {{"act", nullptr}};
       }),
       "\"vision_config.layers.act\" is null, but missing", true},
      {"config", ct, Config([](ModelJson& q) { q.erase("ignore"); }),
       "\"ignore\" is missing"},
      {"config", ct, Config([](ModelJson& q) { q.erase("quant_method"); }),
       "\"quant_method\" is missing"},
      {"config-type", ct, Model_([](ModelJson& c) {
         c["quantization_config"] = {1, 2};
       }),
       "\"quantization_config\" is [1,2]"},
      {"config-type", ct, Config([](ModelJson& q) { q["ignore"] = "lm_head"; }),
       "\"ignore\" is \"lm_head\", but should be a list of strings"},
      {"config-type", ct,
       Group([](ModelJson& g) { g["weights"]["dynamic"] = "false"; }),
       "weights.dynamic\" is \"false\""},
      {"config-type", ct, Group([](ModelJson& g) { g["weights"] = nullptr; }),
       "weights\" is null"},
      {"config-mismatch", ct,
       Group([](ModelJson& g) { g["weights"]["num_bits"] = 8; }),
       "num_bits\" is 8, but for tensors in nvfp4"},
      {"config-mismatch", ct,
       Group([](ModelJson& g) { g["weights"]["type"] = "int"; }),
       "type\" is \"int\""},
      {"config-mismatch", ct,
       Group([](ModelJson& g) { g["weights"]["group_size"] = 32; }),
       "group_size\" is 32"},
      {"config-mismatch", ct,
       Group([](ModelJson& g) { g["weights"]["strategy"] = "channel"; }),
       "strategy\" is \"channel\""},
      {"config-mismatch", ct,
       Group([](ModelJson& g) { g["format"] = "pack-quantized"; }),
       "format\" is \"pack-quantized\""},
      {"config-mismatch", ct,
       Config([](ModelJson& q) { q["format"] = "pack-quantized"; }),
       "\"format\" is \"pack-quantized\""},
      {"config-mismatch", ct,
       Group([](ModelJson& g) { g["targets"] = {"re:.*mlp.*"}; }),
       "is not a target of any group"},
      {"config-mismatch", ct, Config([](ModelJson& q) {
         q["transform_config"] = {{"config_groups", {{"R1", {1}}}}};
       }),
       "\"transform_config\" has R1, but there is no tensor for it"},
      // The name of a transform is not a part of a projection's name.
      {"config-mismatch", ct, Config([](ModelJson& q) {
         q["transform_config"] = {{"config_groups", {{"v", {1}}}}};
       }),
       "\"transform_config\" has v, but there is no tensor for it"},
      {"config-mismatch", ct,
       Config([](ModelJson& q) { q["quantization_status"] = "frozen"; }),
       "is \"frozen\""},
      {"config-mismatch", mo,
       Own([](ModelJson& q) { q["quant_algo"] = "FP8"; }),
       "quant_algo\" is \"FP8\""},
      {"config-mismatch", mo,
       [](Planted& p) {
         Inputs({0.001f, 0.001f, 0.001f})(p);
         p.own["quantization"]["quant_algo"] = "W4A16_NVFP4";
       },
       "it has an input scale, but the configuration declares"},
      {"config-mismatch", ct, Group([](ModelJson& g) {
         g["input_activations"] = {{"num_bits", 8},
                                   {"type", "float"},
                                   {"strategy", "tensor_group"},
                                   {"group_size", 32},
                                   {"dynamic", true}};
       }),
       "input_activations: group_size\" is 32"},
      {"config-mismatch", ct, Group([](ModelJson& g) {
         g["input_activations"] = {
             {"num_bits", 8}, {"type", "int"}, {"dynamic", true}};
       }),
       "input_activations: type\" is \"int\""},
      {"config-mismatch", ct,
       [](Planted& p) {
         for (const std::string& module : {kQ, kK, kV}) Plain(module)(p);
       },
       "quantized the weights, but no weight is"},
      {"config-mismatch", ct,
       [](Planted& p) {
         for (const std::string& module : {kQ, kK, kV}) Plain(module)(p);
         p.config.erase("quantization_config");
       },
       "it declares the weights as NVFP4, but no weight is quantized", false,
       [](const std::string& at) {
         WriteFile(at + "/hf_quant_config.json",
                   R"({"quantization": {"quant_algo": "NVFP4"}})");
       }},
      {"config-mismatch", Base::kDeepSeek, Config([](ModelJson& q) {
         q["weight_block_size"] = {64, 64};
       }),
       "is [64,64]"},
      {"config-mismatch", Base::kDeepSeek,
       Config([](ModelJson& q) { q["scale_fmt"] = "ue8m0"; }),
       "not a power of two"},
      {"ignore-list", ct,
       Config([](ModelJson& q) { q["ignore"].push_back(kQ); }), "q_proj"},
      {"ignore-list", ct,
       Config([](ModelJson& q) { q["ignore"].push_back("re:.*self_attn.*"); }),
       "it is quantized, but listed as not quantized"},
      {"ignore-list", mo, Own([](ModelJson& q) {
         q["exclude_modules"].push_back("model.layers.0*");
       }),
       "it is quantized, but listed as not quantized"},
      {"ignore-list", Base::kDeepSeek, Config([](ModelJson& q) {
         q["modules_to_not_convert"].push_back("model.layers.0.self_attn");
       }),
       "it is quantized, but listed as not quantized"},
      {"ignore-list", Base::kDeepSeek, Config([](ModelJson& q) {
         q["modules_to_not_convert"].push_back("self_attn.q_proj");
       }),
       "it is quantized, but listed as not quantized"},
      {"ignore-list", Base::kDeepSeek, Config([](ModelJson& q) {
         q["modules_to_not_convert"].push_back("attn.q");
       }),
       "it is quantized, but \"attn.q\" in the list of modules that are not "
       "quantized is part of its name"},
      {"ignore-list", ct, Config([](ModelJson& q) {
         q["ignore"].push_back("model.layers.0.self_attn.qkv_proj");
       }),
       "engines look for model.layers.0.self_attn.qkv_proj, which they find"},
      {"ignore-list", ct,
       Config([](ModelJson& q) { q["ignore"].push_back("re:.*qkv_proj$"); }),
       "engines look for model.layers.0.self_attn.qkv_proj, which they find"},
      {"ignore-list", ct, Config([](ModelJson& q) {
         q["ignore"].push_back("self_attn.qkv_proj");
       }),
       "engines look for model.layers.0.self_attn.qkv_proj, which they find"},
      {"ignore-list", ct,
       Config([](ModelJson& q) { q["ignore"].push_back("q_proj"); }),
       "engines look for model.layers.0.self_attn.q_proj, which they find"},
      {"ignore-list", Base::kDeepSeek, Config([](ModelJson& q) {
         q["modules_to_not_convert"].push_back(
             "model.layers.0.self_attn.qkv_proj");
       }),
       "engines look for model.layers.0.self_attn.qkv_proj, which they find"},
      {"ignore-list", mo,
       Own([](ModelJson& q) { q["exclude_modules"].push_back("*qkv_proj"); }),
       "engines look for model.layers.0.self_attn.qkv_proj, which they find"},
      {"ignore-list", mo,
       Own([](ModelJson& q) { q["exclude_modules"].push_back("qkv*"); }),
       "engines look for model.layers.0.self_attn.qkv_proj, which they find"},
      {"ignore-list", mo,
       Own([](ModelJson& q) { q["exclude_modules"].push_back("self_attn.q"); }),
       "engines look for model.layers.0.self_attn.qkv_proj, which they find"},
      {"ignore-list", mo,
       [](Planted& p) {
         Quantized("model.layers.0.mlp.experts.0.down_proj")(p);
         p.own["quantization"]["exclude_modules"].push_back(
             "model.layers.0.mlp.experts");
       },
       "engines look for model.layers.0.mlp.experts, which they find"},
      {"ignore-list", ct,
       Put("model.layers.0.self_attn.o_proj.weight", {64, 32}),
       "missing in the list"},
      {"ignore-list", ct, Put("model.layers.0.mlp.gate.weight", {8, 32}),
       "missing in the list"},
      {"ignore-list", ct, Put("visual.blocks.0.attn.qkv.weight", {96, 32}),
       "missing in the list"},
      // A class that the tables of shapes do not have.
      {"ignore-list", ct,
       [](Planted& p) {
         const std::string name = "visual.blocks.0.attn.qkv.weight";
         p.tensors[name] = Bf16(name, {96, 32});
         p.config["model_type"] = "qwen3_5_moe";
         p.config["architectures"] = {"Qwen3_5MoeForConditionalGeneration"};
       },
       "missing in the list"},
      // Names must match as a whole, and expressions from the start of the
      // name.
      {"ignore-list", ct,
       [](Planted& p) {
         const std::string name = "model.layers.0.self_attn.o_proj.weight";
         p.tensors[name] = Bf16(name, {64, 32});
         for (const char* entry :
              {"layers.0.self_attn.o_proj", "model.layers.0.self_attn.o*",
               "re:o_proj"}) {
           p.config["quantization_config"]["ignore"].push_back(entry);
         }
       },
       "missing in the list"},
      {"ignore-list", mo,
       Config([](ModelJson& q) { q["ignore"].push_back("model.layers.9*"); }),
       "config.json: model.layers.9*"},
      {"bad-pattern", ct,
       Config([](ModelJson& q) { q["ignore"].push_back("re:*lm_head("); }),
       "re:*lm_head("},
  };
}

}  // namespace quantd::checkpoint
