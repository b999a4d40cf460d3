#include "tests/client/checkpoint/fault.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace quantd::checkpoint {
namespace {

constexpr char kExperts[] = "model.layers.0.mlp.experts";

std::vector<std::byte> Fp8Codes(const std::string& name, size_t count) {
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>()(name)));
  std::vector<std::byte> codes(count);
  for (std::byte& b : codes) {
    const auto code = static_cast<uint8_t>(random());
    b = static_cast<std::byte>((code & 0x7F) == 0x7F ? code & 0x80 : code);
  }
  return codes;
}

Planted CleanFp8(bool blocks) {
  // Engines fuse only weights of whole 128 x 128 blocks.
  const int64_t rows = blocks ? 128 : 32;
  Planted p = Clean(Nvfp4Names::kCompressedTensors);
  p.config["head_dim"] = rows;
  std::erase_if(p.original, [](const WrittenTensor& t) {
    return t.name.find("self_attn") != std::string::npos;
  });
  for (const std::string& module : {kQ, kK, kV}) {
    for (const char* end : {"_packed", "_scale", "_global_scale"}) {
      p.tensors.erase(module + ".weight" + end);
    }
    const std::string codes = module + ".weight";
    const std::string scale = codes + (blocks ? "_scale_inv" : "_scale");
    p.tensors[codes] = {
        codes, "F8_E4M3", {rows, 64}, Fp8Codes(codes, rows * 64)};
    std::vector<float> values;
    for (const std::byte b : p.part(codes).bytes) {
      values.push_back(oracle::E4m3Value(static_cast<uint8_t>(b)) * 0.5f / 448);
    }
    const auto bf16 = oracle::FromValues(oracle::Element::kBF16, values);
    std::vector<std::byte> plain(bf16.size());
    std::memcpy(plain.data(), bf16.data(), bf16.size());
    p.original.push_back({codes, "BF16", {rows, 64}, plain});
    p.tensors[scale] = {
        scale, "F32",
        blocks ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{1},
        FloatBytes({0.5f / 448})};
  }
  ModelJson& q = p.config["quantization_config"];
  if (blocks) {
    q = {{"quant_method", "fp8"},
         {"fmt", "e4m3"},
         {"activation_scheme", "dynamic"},
         {"weight_block_size", {128, 128}},
         {"modules_to_not_convert", {"lm_head"}}};
    return p;
  }
  q["format"] = "float-quantized";
  ModelJson& group = q["config_groups"]["group_0"];
  group["format"] = "float-quantized";
  group["weights"] = {{"num_bits", 8},     {"type", "float"},
                      {"symmetric", true}, {"strategy", "tensor"},
                      {"dynamic", false},  {"group_size", nullptr}};
  return p;
}

Planted CleanComfy() {
  Planted p = Clean(Nvfp4Names::kModelOpt);
  p.names = Nvfp4Names::kCompressedTensors;  // so that hf_quant_config.json is
                                             // not written
  p.config.erase("quantization_config");
  for (const std::string& module : {kQ, kK, kV}) {
    Pad(&p.part(module + ".weight_scale"), true);
    for (std::byte& b : p.part(module + ".weight").bytes) b = b >> 4 | b << 4;
    const std::string label = R"({"format": "nvfp4"})";
    const std::string name = module + ".comfy_quant";
    std::vector<std::byte> bytes(label.size());
    std::memcpy(bytes.data(), label.data(), label.size());
    p.tensors[name] = {name, "U8", {static_cast<int64_t>(label.size())}, bytes};
  }
  return p;
}

}  // namespace

Planted CleanOf(Base base) {
  switch (base) {
    case Base::kCompressedTensors:
      return Clean(Nvfp4Names::kCompressedTensors);
    case Base::kModelOpt:
      return Clean(Nvfp4Names::kModelOpt);
    case Base::kFp8:
    case Base::kDeepSeek:
      return CleanFp8(base == Base::kDeepSeek);
    case Base::kComfy:
      return CleanComfy();
  }
  return {};
}

Plant Set(const std::string& name, float value) {
  return [=](Planted& p) { p.part(name).bytes = FloatBytes({value}); };
}
Plant SetAll(const std::string& end, float value) {
  return [=](Planted& p) {
    for (const std::string& module : {kQ, kK, kV}) {
      p.part(module + end).bytes = FloatBytes({value});
    }
  };
}
Plant Fill(const std::string& name, uint8_t byte, size_t from) {
  return [=](Planted& p) {
    auto& bytes = p.part(name).bytes;
    std::fill(bytes.begin() + static_cast<ptrdiff_t>(from), bytes.end(),
              std::byte{byte});
  };
}
Plant RowByRow(const std::vector<std::string>& modules, bool padded) {
  return [=](Planted& p) {
    for (const std::string& module : modules) {
      WrittenTensor& scales = p.part(module + ".weight_scale");
      const std::vector<std::byte> swizzled = scales.bytes;
      const int64_t rows = p.part(module + ".weight").shape[0];
      scales.shape = {rows, scales.shape[1]};
      scales.bytes.clear();
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < 4; ++j) {
          scales.bytes.push_back(swizzled[i % 32 * 16 + i / 32 * 4 + j]);
        }
      }
      if (padded) Pad(&scales, /*swizzled=*/false);
    }
  };
}
Plant Put(const std::string& name, std::vector<int64_t> shape) {
  return [=](Planted& p) { p.tensors[name] = Bf16(name, shape); };
}
Plant Erase(const std::string& name) {
  return [=](Planted& p) { p.tensors.erase(name); };
}
Plant Inputs(std::vector<float> scales) {
  return [=](Planted& p) {
    p.own["quantization"]["quant_algo"] = "NVFP4";
    size_t i = 0;
    for (const std::string& module : {kQ, kK, kV}) {
      if (i == scales.size()) break;
      const std::string name = module + ".input_scale";
      p.tensors[name] = {name, "F32", {}, FloatBytes({scales[i++]})};
    }
  };
}
Plant Cache(const std::vector<std::pair<const char*, float>>& scales) {
  return [=](Planted& p) {
    p.config["quantization_config"]["kv_cache_scheme"] = {
        {"num_bits", 8}, {"type", "float"}, {"dynamic", false}};
    for (const auto& [leaf, value] : scales) {
      const std::string name = std::string(kAttention) + leaf;
      p.tensors[name] = {name, "F32", {1}, FloatBytes({value})};
    }
  };
}
Plant Config(Edit edit) {
  return [=](Planted& p) { edit(p.config["quantization_config"]); };
}
Plant Group(Edit edit) {
  return Config([=](ModelJson& q) { edit(q["config_groups"]["group_0"]); });
}
Plant Own(Edit edit) {
  return [=](Planted& p) { edit(p.own["quantization"]); };
}
Plant Model_(Edit edit) {
  return [=](Planted& p) { edit(p.config); };
}
Plant Plain(const std::string& module) {
  return [=](Planted& p) {
    for (const char* end : {"_packed", "_scale", "_global_scale"}) {
      p.tensors.erase(module + ".weight" + end);
    }
    p.tensors[module + ".weight"] = Bf16(module + ".weight", {32, 64});
  };
}
Plant Quantized(const std::string& module) {
  return [=](Planted& p) {
    for (const WrittenTensor& t : MakeNvfp4(module, 32, 64, p.names).parts) {
      p.tensors[t.name] = t;
    }
  };
}
void Nest(Planted& p) {
  std::map<std::string, WrittenTensor> tensors;
  for (const auto& [name, t] : p.tensors) {
    tensors["language_model." + name] = t;
    tensors["language_model." + name].name = "language_model." + name;
  }
  for (const char* name : {"vision_tower.encoder.layers.0.mlp.fc1.weight",
                           "multi_modal_projector.linear_1.weight"}) {
    tensors[name] = Bf16(name, {64, 64});
  }
  p.tensors = tensors;
  ModelJson config = {{"architectures", {"LlavaForConditionalGeneration"}},
                      {"model_type", "llava"},
                      {"text_config", p.config},
                      {"vision_config", ModelJson::object()},
                      {"quantization_config", p.config["quantization_config"]}};
  config["text_config"].erase("quantization_config");
  config["quantization_config"]["ignore"] = {
      R"(re:.*vision_tower\..*)", R"(re:.*multi_modal_projector\..*)",
      R"(re:.*lm_head$)"};
  p.config = config;
}
Plant Expert(int expert, std::vector<int64_t> shape) {
  return [=](Planted& p) {
    for (int e = 0; e < 2; ++e) {
      const std::string name =
          fmt::format("{}.{}.down_proj.weight", kExperts, e);
      if (e == expert && shape.empty()) continue;
      p.tensors[name] =
          Bf16(name, e == expert ? shape : std::vector<int64_t>{64, 32});
    }
    p.config["quantization_config"]["ignore"].push_back("re:.*experts.*");
    p.config["intermediate_size"] = 32;
    p.config["num_local_experts"] = 2;
  };
}

namespace {

void Rewrite(const std::string& directory,
             const safetensors::Metadata& metadata, std::string_view without) {
  const auto model = Model::Open(directory);
  ASSERT_THAT(model, IsOk());
  std::vector<WrittenTensor> tensors;
  for (const ModelTensor& t : model->tensors()) {
    if (t.name().ends_with(without)) continue;
    std::vector<std::byte> bytes(t.stored.size);
    ASSERT_THAT(model->Read(t, 0, absl::MakeSpan(bytes)), IsOk());
    tensors.push_back({t.name(), t.stored.dtype, t.stored.shape, bytes});
  }
  const std::string path = directory + "/model.safetensors";
  std::filesystem::remove(path);
  WriteSafetensors(path, tensors, metadata);
}

}  // namespace

void PutMetadata(const std::string& directory,
                 const safetensors::Metadata& metadata) {
  Rewrite(directory, metadata, "nothing");
}
void PutComfyMetadata(const std::string& directory, const std::string& text) {
  Rewrite(directory, {{"format", "pt"}, {"_quantization_metadata", text}},
          ".comfy_quant");
}

}  // namespace quantd::checkpoint
