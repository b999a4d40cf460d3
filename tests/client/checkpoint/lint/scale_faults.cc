#include <cmath>

#include "tests/client/checkpoint/fault.h"

namespace quantd::checkpoint {

std::vector<Fault> ScaleFaults() {
  const Base ct = Base::kCompressedTensors;
  const Base mo = Base::kModelOpt;
  return {
      {"fused-scales", ct, Set(kK + ".weight_global_scale", 5000), "5000"},
      {"fused-scales", mo, Set(kK + ".weight_scale_2", 1e-4f),
       "the global scale of model.layers.0.self_attn.k_proj is"},
      {"fused-in-part", ct, Plain(kK), "k_proj is not"},
      {"fused-in-part", ct,
       [](Planted& p) {
         p.config["model_type"] = "minimax_m3";
         const std::string name =
             std::string(kAttention) + "index_k_proj.weight";
         p.tensors[name] = Bf16(name, {16, 64});
       },
       "index_k_proj is not"},
      {"fused-in-part", ct,
       [](Planted& p) {
         Expert(-1, {})(p);
         const std::string experts = "model.layers.0.mlp.experts.";
         for (const char* e : {"0", "1"}) {
           Quantized(experts + e + ".gate_proj")(p);
         }
       },
       "gate_proj is quantized, but model.layers.0.mlp.experts.0.down_proj"},
      {"unknown-format", ct,
       [](Planted& p) {
         const std::string name = "model.layers.0.self_attn.o_proj.";
         p.tensors[name + "weight"] = {name + "weight",
                                       "F8_E4M3",
                                       {32, 64},
                                       std::vector<std::byte>(32 * 64)};
         Put(name + "scale_weight", {1})(p);
       },
       "its scales may be model.layers.0.self_attn.o_proj.scale_weight"},
      {"bad-scale", ct, Set(kQ + ".weight_global_scale", 0),
       "weight_global_scale is 0"},
      {"bad-scale", mo, Set(kQ + ".weight_scale_2", NAN), "is NaN"},
      {"bad-scale", mo,
       [](Planted& p) {
         p.part(kQ + ".weight_scale").bytes[7] = std::byte{0xFF};
       },
       "is NaN in 1 of 128 places"},
      {"bad-scale", mo,
       [](Planted& p) {
         for (size_t i = 5; i < 8; ++i) {
           p.part(kQ + ".weight_scale").bytes[i] = std::byte{0xB8};
         }
       },
       "is -1 in 3 of 128 places"},
      {"bad-scale", mo, Fill(kQ + ".weight_scale", 0), "is all zeros"},
      {"bad-scale", Base::kDeepSeek,
       [](Planted& p) {
         p.part(kQ + ".weight").shape = {32, 256};
         p.part(kQ + ".weight_scale_inv").shape = {1, 2};
         auto& codes = p.part(kQ + ".weight").bytes;
         codes.resize(32 * 256, std::byte{0x70});
         p.part(kQ + ".weight_scale_inv").bytes = FloatBytes({0.5f / 448, 0});
       },
       "decode to zero because their scales are zero"},
      {"divisor", ct, Set(kQ + ".weight_global_scale", 0.5f / 2688), "divisor"},
      {"divisor", mo, Set(kQ + ".weight_scale_2", 2688 / 0.5f), "multiplier"},
      {"implausible-scale", Base::kFp8, Set(kQ + ".weight_scale", 448 / 0.5f),
       "as large as 4.01e+05"},
      {"implausible-scale", Base::kDeepSeek,
       Set(kQ + ".weight_scale_inv", 1e30f), "has a scale of 1e+30"},
      {"implausible-scale", Base::kFp8, Set(kQ + ".weight_scale", 1e-20f),
       "its largest value would be"},
      {"implausible-scale", Base::kFp8,
       [](Planted& p) {
         std::vector<float> scales(32, 0.5f / 448);
         scales[7] = 4;
         WrittenTensor& t = p.part(kQ + ".weight_scale");
         t.shape = {32, 1};
         t.bytes = FloatBytes(scales);
       },
       "although half of its scales are at most"},
      {"placeholder-scale", Base::kFp8, SetAll(".weight_scale", 1),
       "the scales of all 3 weights are 1"},
      {"placeholder-scale", ct, Fill(kQ + ".weight_scale", 0x38), "are 1"},
      {"unused-range", ct,
       [](Planted& p) {
         for (const std::string& module : {kQ, kK, kV}) {
           for (std::byte& b : p.part(module + ".weight_scale").bytes) {
             b = static_cast<std::byte>(static_cast<int>(b) - 0x3F);
           }
         }
       },
       "its largest block scale is"},
      {"unused-range", Base::kFp8,
       [](Planted& p) {
         for (std::byte& b : p.part(kQ + ".weight").bytes) b &= std::byte{0x9F};
       },
       "its largest code is"},
      {"no-input-scale", mo,
       Own([](ModelJson& q) { q["quant_algo"] = "NVFP4"; }),
       "declared as NVFP4"},
      {"no-input-scale", ct, Group([](ModelJson& g) {
         g["input_activations"] = {{"dynamic", "local"}};
       }),
       "declared as group_0"},
      {"no-input-scale", mo, Inputs({0.001f, 0.001f}), "unlike other weights"},
      {"no-input-scale", Base::kDeepSeek,
       Config([](ModelJson& q) { q["activation_scheme"] = "static"; }),
       "declared as static"},
      {"input-scale", mo, Inputs({1, 1, 1}),
       "are 1, as if they were not measured"},
      {"input-scale", mo, Inputs({0.001f, 0.001f, 1}),
       "input_scale is 1, as if it was not measured"},
      {"input-scale", mo, Inputs({2, 2, 2}),
       "input_scale is 2, which implies inputs as large as 5.38e+03, while its "
       "reciprocal implies 1.34e+03. The same holds for most of the 3 input "
       "scales: they seem to be reciprocals"},
      {"input-scale", mo, Inputs({700, 700, 700}), "inputs as large as"},
      {"input-scale", mo, Inputs({1e-12f, 1e-12f, 1e-12f}), "2.69e-09"},
      {"input-scale", mo,
       [](Planted& p) {
         Inputs({0.001f, 0.001f, 0.001f})(p);
         WrittenTensor& t = p.part(kQ + ".input_scale");
         t.shape = {2};
         t.bytes = FloatBytes({0.001f, 0.001f});
       },
       "has 2 numbers, but engines expect one"},
      // The quotient of 2688 and any of these numbers is not a bf16 number.
      {"input-scale", ct,
       [](Planted& p) {
         float amax = 4.5f;
         for (const char* leaf : {"self_attn.q_proj", "mlp.gate_proj",
                                  "mlp.up_proj", "mlp.x_proj", "mlp.y_proj"}) {
           const std::string module = fmt::format("model.layers.0.{}", leaf);
           for (const WrittenTensor& t :
                MakeNvfp4(module, 32, 64, p.names).parts) {
             p.tensors[t.name] = t;
           }
           const std::string name = module + ".input_global_scale";
           p.tensors[name] = {name, "F32", {1}, FloatBytes({amax})};
           amax += 0.625f;
         }
       },
       "they seem to be the largest inputs themselves"},
      {"fused-input-scales", mo, Inputs({0.001f, 0.004f, 0.001f}),
       "for the same inputs"},
      {"cache-scale", ct, Cache({}), "no scales of the KV cache"},
      {"cache-scale", mo,
       [](Planted& p) {
         for (const char* leaf : {"k_proj.k_scale", "v_proj.v_scale"}) {
           const std::string name = std::string(kAttention) + leaf;
           p.tensors[name] = {name, "F32", {}, FloatBytes({0.1f})};
         }
         p.own["quantization"]["kv_cache_quant_algo"] = "FP8";
       },
       "\"kv_cache_scheme\" is missing, although"},
      {"cache-scale", ct, Cache({{"k_scale", 0.1f}}), "no scale of values"},
      {"cache-scale", ct,
       [](Planted& p) {
         Cache({{"k_scale", 0.1f}, {"v_scale", 0.1f}})(p);
         p.config["quantization_config"].erase("kv_cache_scheme");
       },
       "the configuration declares no quantized KV cache"},
      {"cache-scale", ct, Cache({{"k_scale", 0}, {"v_scale", 0.1f}}),
       "it is 0"},
      {"cache-scale", ct, Cache({{"k_scale", NAN}, {"v_scale", 0.1f}}),
       "it is NaN"},
      {"cache-scale", ct, Cache({{"k_scale", 15000}, {"v_scale", 0.1f}}),
       "which is implausible for keys or values"},
      {"cache-scale", ct, Cache({{"k_scale", 1 / 0.03f}, {"v_scale", 0.05f}}),
       "k_scale: half of all scales of keys are at least 33.33, which implies "
       "keys as large as 1.49e+04: they may be reciprocals"},
      {"cache-scale", ct, Cache({{"k_scale", 0.1f}, {"v_scale", 1 / 0.2f}}),
       "v_scale: half of all scales of values are at least 5"},
      {"cache-scale", ct,
       [](Planted& p) {
         Cache({{"k_scale", 0.1f}, {"v_scale", 0.1f}})(p);
         WrittenTensor& t = p.part(std::string(kAttention) + "k_scale");
         t.shape = {2};
         t.bytes = FloatBytes({0.1f, 0.1f});
       },
       "k_scale: it has 2 numbers, but engines expect one"},
  };
}

}  // namespace quantd::checkpoint
