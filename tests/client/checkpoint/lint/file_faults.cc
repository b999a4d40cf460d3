#include <cstring>
#include <filesystem>
#include <utility>

#include "tests/client/checkpoint/fault.h"

namespace quantd::checkpoint {
namespace {

void Label(Planted* p, const std::string& text) {
  WrittenTensor& t = p->part(kQ + ".comfy_quant");
  t.shape = {static_cast<int64_t>(text.size())};
  t.bytes.resize(text.size());
  std::memcpy(t.bytes.data(), text.data(), text.size());
}

// Returns a fault of "_quantization_metadata" with these formats of modules.
Fault SaidFault(const std::vector<std::pair<std::string, const char*>>& layers,
                const char* says) {
  ModelJson text = {{"format_version", "1.0"}, {"layers", ModelJson::object()}};
  for (const auto& [module, format] : layers) {
    text["layers"][module] = {{"format", format}};
  }
  const std::string said = text.dump();
  return {"label",
          Base::kComfy,
          [](Planted&) {},
          says,
          false,
          [said](const std::string& at) { PutComfyMetadata(at, said); }};
}

}  // namespace

std::vector<Fault> LayoutFaults() {
  const Base ct = Base::kCompressedTensors;
  const Base mo = Base::kModelOpt;
  return {
      {"padded-scales", ct,
       [](Planted& p) { Pad(&p.part(kQ + ".weight_scale"), false); },
       "scales are padded"},
      {"swizzled-scales", mo,
       [](Planted& p) { Pad(&p.part(kQ + ".weight_scale"), true); },
       "scales are swizzled"},
      {"dialect", mo,
       [](Planted& p) {
         Rename(&p, kQ + ".weight", kQ + ".weight_packed");
         Rename(&p, kQ + ".weight_scale_2", kQ + ".weight_global_scale");
         p.part(kQ + ".weight_global_scale").shape = {1};
       },
       "named as in compressed-tensors"},
      {"dialect", ct,
       Config([](ModelJson& q) { q["quant_method"] = "compressed_tensors"; }),
       "\"quant_method\" is \"compressed_tensors\""},
      {"missing-scale", ct, Erase(kQ + ".weight_scale"), "it has no scales"},
      {"missing-scale", mo, Erase(kQ + ".weight_scale_2"),
       "it has no global scale"},
      {"missing-scale", ct,
       [](Planted& p) {
         const std::string name = "model.layers.0.mlp.experts.down_proj_blocks";
         p.tensors[name] = {
             name, "U8", {1, 2, 1, 16}, std::vector<std::byte>(32)};
       },
       "experts.down_proj: it has no scales"},
      {"unclear-layout", ct,
       [](Planted& p) {
         Rename(&p, kQ + ".weight_scale", kQ + ".weight_scale_inv");
       },
       "weight_scale_inv should be named"},
      {"unclear-layout", mo,
       [](Planted& p) { p.part(kQ + ".weight_scale").dtype = "U8"; },
       "it looks like nvfp4 by modelopt, but model.layers.0.self_attn.q_proj."
       "weight_scale has the type U8 instead of F8_E4M3"},
      {"unknown-format", mo,
       [](Planted& p) { p.part(kQ + ".weight").dtype = "F8_E5M2"; },
       "belong to no known format"},
      {"unknown-format", ct,
       [](Planted& p) {
         const std::string name = "model.layers.0.x.w1.";
         p.tensors[name + "weight"] = {
             name + "weight", "F8_E4M3", {16, 16}, std::vector<std::byte>(256)};
         const std::string scale = name + "qscale_weight";
         p.tensors[scale] = {scale, "BF16", {}, std::vector<std::byte>(2)};
       },
       "its scales may be model.layers.0.x.w1.qscale_weight"},
      {"unknown-format", mo,
       [](Planted& p) {
         const std::string name = "model.layers.0.mlp.experts.down_proj";
         p.tensors[name] = {name, "U8", {2, 4, 8}, std::vector<std::byte>(64)};
         p.tensors[name + "_weight_scale"] = {name + "_weight_scale",
                                              "F8_E4M3",
                                              {2, 1, 8},
                                              std::vector<std::byte>(16)};
       },
       "(ModelOpt fused experts)"},
      {"unknown-format", ct,
       [](Planted& p) {
         const std::string name =
             "model.layers.0.mlp.experts.0.up_proj.qweight";
         p.tensors[name] = {name, "I32", {4, 4}, std::vector<std::byte>(64)};
       },
       "(AWQ or GPTQ)"},
      {"stacked-experts", ct,
       [](Planted& p) {
         const std::string name =
             "model.layers.0.block_sparse_moe.input_linear.weight";
         p.tensors[name] = Bf16(name, {2, 4, 8});
       },
       "2 experts are stored as BF16"},
      {"swizzled-scales", Base::kComfy, RowByRow({kQ}, /*padded=*/true),
       "its padding shows that its scales are stored row by row"},
      {"swizzled-scales", Base::kComfy, RowByRow({kQ}, /*padded=*/false),
       "its 128 scales are stored row by row instead of 512"},
      {"unknown-part", ct,
       [](Planted& p) {
         const std::string name = kQ + ".weight_scale_2";
         p.tensors[name] = {name, "F32", {}, FloatBytes({1e-4f})};
       },
       "it has a tensor weight_scale_2"},
      {"unknown-part", mo, Put(kQ + ".pre_quant_scale", {64}),
       "it has a tensor pre_quant_scale"},
      {"unknown-part", ct, Put(kQ + ".weight_zero_point", {32, 4}),
       "weight_zero_point"},
      {"unknown-part", ct, Put(kQ + ".weight_g_idx", {64}), "weight_g_idx"},
      {"unknown-part", ct, Put(kQ + ".input_zero_point", {1}),
       "input_zero_point"},
      {"unknown-part", mo,
       Put("model.layers.0.mlp.up_proj.weight_quantizer._amax", {1}),
       "it is a leftover of ModelOpt's calibration"},
      {"label", Base::kComfy, Erase(kQ + ".comfy_quant"), "no comfy_quant"},
      // Without a label, swizzled and padded scales show that the file is
      // ComfyUI's.
      {"label", Base::kComfy,
       [](Planted& p) {
         for (const std::string& module : {kQ, kK, kV}) {
           p.tensors.erase(module + ".comfy_quant");
         }
       },
       "no comfy_quant", false,
       [](const std::string& at) {
         std::filesystem::remove(at + "/config.json");
       }},
      {"label", Base::kComfy, [](Planted& p) { Label(&p, "{\"format\": "); },
       "is not valid JSON"},
      {"label", Base::kComfy, [](Planted& p) { Label(&p, "[1]"); },
       "is [1] instead of a JSON object"},
      {"label", Base::kComfy,
       [](Planted& p) { Label(&p, R"({"format": "float8_e4m3fn"})"); },
       "says float8_e4m3fn, but it is nvfp4"},
      SaidFault({{kQ, "nvfp4"}, {kK, "nvfp4"}},
                "v_proj: it has no comfy_quant, and _quantization_metadata "
                "does not name it"),
      SaidFault({{kQ, "nvfp4"}, {kK, "float8_e4m3fn"}, {kV, "nvfp4"}},
                "says float8_e4m3fn, but it is nvfp4"),
      SaidFault({{kQ, "nvfp4"}, {kK, "nvfp4"}, {kV, "nvfp4"}, {"x", "nvfp4"}},
                "names it, but there is no such weight"),
      SaidFault(
          {{kQ, "nvfp4"}, {kK, "nvfp4"}, {kV, "nvfp4"}, {"lm_head", "nvfp4"}},
          "names it, but it is not quantized"),
      {"label", Base::kComfy, [](Planted&) {},
       "its _quantization_metadata is not valid JSON", false,
       [](const std::string& at) { PutComfyMetadata(at, "{\"layers\":"); }},
      {"label", Base::kComfy, [](Planted&) {},
       "its _quantization_metadata has no object \"layers\", but: [1]", false,
       [](const std::string& at) { PutComfyMetadata(at, "[1]"); }},
      {"label", Base::kComfy, [](Planted&) {}, "levels of nesting", false,
       [](const std::string& at) {
         PutComfyMetadata(at, std::string(100000, '['));
       }},
      {"stacked-experts", ct,
       Put("model.layers.0.mlp.experts.gate_up_proj", {4, 32, 128}),
       "4 experts are stored as BF16"},
  };
}

std::vector<Fault> FileFaults() {
  const Base ct = Base::kCompressedTensors;
  const Plant none = [](Planted&) {};
  return {
      {"unreadable", ct, none, "invalid JSON", false,
       [](const std::string& at) { WriteFile(at + "/config.json", "{\"a\""); }},
      {"unreadable", ct, none, "model.safetensors", false,
       [](const std::string& at) {
         const std::string path = at + "/model.safetensors";
         std::filesystem::resize_file(path,
                                      std::filesystem::file_size(path) - 8);
       }},
      {"unreadable", ct, none,
       "model.safetensors: a Git LFS pointer instead of the file", false,
       [](const std::string& at) {
         WriteFile(at + "/model.safetensors",
                   "version https://git-lfs.github.com/spec/v1\n"
                   "oid sha256:ab\nsize 99\n");
       }},
      {"unreadable", ct, none, "an unfinished conversion: run the same convert",
       false,
       [](const std::string& at) {
         std::filesystem::rename(at + "/model.safetensors",
                                 at + "/model.safetensors.partial");
         WriteFile(at + "/.quantd-journal", "");
       }},
      {"config", ct, none,
       "begins with a byte order mark, which makes transformers fail", false,
       [](const std::string& at) {
         const std::string path = at + "/config.json";
         WriteFile(path, "\xEF\xBB\xBF" + ReadFile(path));
       }},
      {"config-type", ct, none,
       "\"rope_scaling.factor\" is NaN, but should be a number", false,
       [](const std::string& at) {
         const std::string path = at + "/config.json";
         WriteFile(path, R"({"rope_scaling": {"factor": NaN},)" +
                             ReadFile(path).substr(1));
       }},
      {"config", ct, none, "it is missing, so engines do not know the model",
       false,
       [](const std::string& at) {
         std::filesystem::remove(at + "/config.json");
       }},
      {"stray-file", ct, none,
       "consolidated.safetensors: it is not part of model.safetensors, but "
       "also "
       "has a tensor lm_head.weight",
       false,
       [](const std::string& at) {
         WriteSafetensors(at + "/consolidated.safetensors",
                          {Bf16("lm_head.weight", {16, 64})});
       }},
      {"file-format", ct, none,
       "the \"format\" in its metadata is \"np\", but must be one of pt, tf",
       false,
       [](const std::string& at) {
         PutMetadata(at, {{"format", "np"}});
       }},
      {"file-format", ct, none, "its metadata has no \"format\"", false,
       [](const std::string& at) {
         PutMetadata(at, {{"made", "by hand"}});
       }},
      {"stored-twice", ct, Put(kQ + ".weight", {32, 64}),
       "is stored twice, in two dialects"},
      {"index", ct, none, "it lacks 1 tensors of its shards", false,
       [](const std::string& at) {
         ModelJson map;
         const auto model = Model::Open(at);
         for (const auto& t : model->tensors()) {
           if (t.name() != "lm_head.weight") {
             map[t.name()] = "model.safetensors";
           }
         }
         WriteFile(at + "/model.safetensors.index.json",
                   ModelJson{{"weight_map", map}}.dump());
       }},
      {"stray-file", ct, none, "but also has a tensor lm_head.weight", false,
       [](const std::string& at) {
         ModelJson map;
         const auto model = Model::Open(at);
         for (const auto& t : model->tensors()) {
           map[t.name()] = "model.safetensors";
         }
         WriteFile(at + "/model.safetensors.index.json",
                   ModelJson{{"weight_map", map}}.dump());
         WriteSafetensors(at + "/old.safetensors",
                          {Bf16("lm_head.weight", {16, 64})});
       }},
  };
}

}  // namespace quantd::checkpoint
