#include "client/checkpoint/convert/config_writer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "client/checkpoint/anatomy/config_facts.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

constexpr std::string_view kCompressedTensorsVersion = "0.20.0";
constexpr std::string_view kModelOptVersion = "0.47.0";
// Endings of the names of KV cache scales in each library.
constexpr std::string_view kCompressedTensorsCache = "attn.k_scale";
constexpr std::string_view kModelOptCache = ".k_proj.k_scale";

// The compressed-tensors description of quantized weights or activations.
// Entries without groups have an explicit null, like the library's own files.
Json Arguments(int bits, std::string_view strategy, Json dynamic) {
  return {{"num_bits", bits},
          {"type", "float"},
          {"symmetric", true},
          {"strategy", strategy},
          {"dynamic", std::move(dynamic)},
          {"group_size", nullptr}};
}

// Whether the conversion adds KV cache scales, or copies some whose names end
// with `ending`.
bool HasCacheScales(const ConversionPlan& plan, std::string_view ending) {
  if (plan.scales_caches) return true;
  return std::ranges::any_of(plan.shards, [&](const OutputShard& shard) {
    return std::ranges::any_of(
        shard.tensors, [&](const auto& t) { return t.name.ends_with(ending); });
  });
}

struct Scheme {
  Json weights;
  Json inputs;
};

Scheme CompressedTensorsScheme(const SchemeRow& row, bool measured) {
  Scheme s = {Arguments(row.bits, row.strategy, false), nullptr};
  if (row.group_size > 0) s.weights["group_size"] = row.group_size;
  if (!row.scale_type.empty()) s.weights["scale_dtype"] = row.scale_type;
  switch (row.format) {
    case WeightFormat::kNvfp4:
    case WeightFormat::kMxfp8: {
      const bool blocks = row.format == WeightFormat::kMxfp8;
      if (!blocks && !measured) break;
      s.inputs = s.weights;
      s.inputs["dynamic"] = blocks ? Json(true) : Json("local");
      break;
    }
    case WeightFormat::kFp8Block:
      s.weights["block_structure"] = {128, 128};
      s.inputs = Arguments(row.bits, "group", true);
      s.inputs["group_size"] = 128;
      break;
    case WeightFormat::kFp8:
    case WeightFormat::kFp8Dynamic: {
      const bool fixed = measured && row.format == WeightFormat::kFp8;
      s.inputs = Arguments(row.bits, fixed ? "tensor" : "token", !fixed);
      break;
    }
    default:
      break;
  }
  return s;
}

Json CompressedTensorsConfig(const Model& model, const ConversionPlan& plan) {
  const auto modules = TargetsOf(model, plan);
  Json groups = Json::object();
  std::string_view overall;
  for (const auto& [kind, targets] : modules) {
    const SchemeRow& row = *FindScheme(kind.format);
    const Scheme scheme = CompressedTensorsScheme(row, kind.measured);
    overall =
        modules.size() == 1 ? row.file_formats.front() : "mixed-precision";
    std::string name(kind.measured ? row.name : row.weights_only);
    // FP8 has the same name with and without input scales.
    if (groups.contains(name)) name += "_STATIC";
    groups[name] = {{"format", row.file_formats.front()},
                    {"input_activations", scheme.inputs},
                    {"output_activations", nullptr},
                    {"targets", targets},
                    {"weights", scheme.weights}};
  }
  return {{"config_groups", groups},
          {"format", overall},
          {"global_compression_ratio", nullptr},
          {"ignore", IgnoredExpressions(model, plan, /*embeddings=*/false,
                                        NameStyle::kRegular)},
          {"kv_cache_scheme", HasCacheScales(plan, kCompressedTensorsCache)
                                  ? Arguments(8, "tensor", false)
                                  : Json(nullptr)},
          {"moe_sparsity_config", nullptr},
          {"quant_method", "compressed-tensors"},
          {"quantization_status", "compressed"},
          {"transform_config", Json::object()},
          {"version", kCompressedTensorsVersion}};
}

struct Algorithm {
  std::string_view name;
  int group_size = 0;  // 0: none
};
Algorithm ModelOptAlgorithm(ModuleKind kind) {
  const SchemeRow& row = *FindScheme(kind.format);
  const bool inputs = kind.format != WeightFormat::kNvfp4 || kind.measured;
  return {inputs ? row.algorithms.front() : "W4A16_NVFP4", row.group_size};
}

Json ModelOptProducer() {
  return {{"name", "modelopt"}, {"version", kModelOptVersion}};
}

// The value of "quantization" in hf_quant_config.json.
Json ModelOptQuantization(const Model& model, const ConversionPlan& plan) {
  const auto modules = ModulesOf(plan);
  const Json cache =
      HasCacheScales(plan, kModelOptCache) ? Json("FP8") : Json(nullptr);
  Json out = Json::object();
  if (modules.size() > 1) {
    out["quant_algo"] = "MIXED_PRECISION";
    out["kv_cache_quant_algo"] = cache;
    Json layers = Json::object();
    for (const auto& [kind, names] : modules) {
      const Algorithm a = ModelOptAlgorithm(kind);
      Json layer = {{"quant_algo", a.name}};
      if (a.group_size > 0) layer["group_size"] = a.group_size;
      for (const std::string& name : names) layers[name] = layer;
    }
    out["quantized_layers"] = layers;
  } else {
    const Algorithm a = ModelOptAlgorithm(modules.begin()->first);
    out["quant_algo"] = a.name;
    out["kv_cache_quant_algo"] = cache;
    if (a.group_size > 0) out["group_size"] = a.group_size;
  }
  // Globs match under every prefix. The keys of quantized_layers cannot be
  // globs: engines look up whole names, whose prefixes they map themselves.
  out["exclude_modules"] =
      IgnoredExpressions(model, plan, /*embeddings=*/true, NameStyle::kGlobs);
  return out;
}

Json ModelOptConfig(const Model& model, const ConversionPlan& plan) {
  const Json quantization = ModelOptQuantization(model, plan);
  Json out = Json::object();
  if (const auto modules = ModulesOf(plan);
      modules.size() == 1 &&
      modules.begin()->first.format != WeightFormat::kMxfp8) {
    const ModuleKind kind = modules.begin()->first;
    const Algorithm a = ModelOptAlgorithm(kind);
    Json scheme = {{"dynamic", false},
                   {"num_bits", a.group_size > 0 ? 4 : 8},
                   {"type", "float"}};
    if (a.group_size > 0) scheme["group_size"] = a.group_size;
    Json group = Json::object();
    if (kind.measured) group["input_activations"] = scheme;
    group["weights"] = scheme;
    group["targets"] = {"Linear"};
    out["config_groups"] = {{"group_0", group}};
  }
  out["ignore"] = quantization["exclude_modules"];
  for (const char* key : {"quant_algo", "group_size", "quantized_layers"}) {
    if (quantization.contains(key)) out[key] = quantization[key];
  }
  // Engines that read config.json look here; those that read
  // hf_quant_config.json look for its kv_cache_quant_algo.
  if (!quantization["kv_cache_quant_algo"].is_null()) {
    out["kv_cache_scheme"] = {
        {"dynamic", false}, {"num_bits", 8}, {"type", "float"}};
  }
  out["producer"] = ModelOptProducer();
  out["quant_method"] = "modelopt";
  return out;
}

Json DeepSeekConfig(const Model& model, const ConversionPlan& plan) {
  Json out = {{"activation_scheme", "dynamic"},
              {"fmt", "e4m3"},
              {"quant_method", "fp8"},
              {"weight_block_size", {128, 128}}};
  // vLLM compares these names for equality, SGLang matches parts of a path, and
  // transformers matches beginnings and endings. No single form works in all of
  // them, so each form is listed.
  out["modules_to_not_convert"] =
      IgnoredNames(model, plan, /*embeddings=*/false);
  return out;
}

Json GptOssConfig(const Model& model, const ConversionPlan& plan) {
  return {{"modules_to_not_convert",
           IgnoredNames(model, plan, /*embeddings=*/true)},
          {"quant_method", "mxfp4"}};
}

Json QuantizationConfig(const Model& model, const ConversionPlan& plan) {
  switch (plan.dialect) {
    case Dialect::kCompressedTensors:
      return CompressedTensorsConfig(model, plan);
    case Dialect::kModelOpt:
      return ModelOptConfig(model, plan);
    case Dialect::kDeepSeek:
      return DeepSeekConfig(model, plan);
    case Dialect::kGptOss:
      return GptOssConfig(model, plan);
    case Dialect::kComfy:
    case Dialect::kNone:
      break;
  }
  return nullptr;
}

std::string TextOf(const Json& json) { return PythonJsonText(json, 2) + "\n"; }

// The text of the index, sorted by name like index files on the Hub.
std::string IndexText(const ConversionPlan& plan) {
  std::map<std::string, std::string> shards;
  for (const OutputShard& shard : plan.shards) {
    for (const safetensors::Tensor& t : shard.tensors) {
      shards[t.name] = shard.name;
    }
  }
  const nlohmann::json index = {{"metadata", {{"total_size", plan.bytes_out}}},
                                {"weight_map", shards}};
  return index.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

constexpr char kFloats[] = "float-quantized naive-quantized";
constexpr SchemeRow kSchemes[] = {
    {WeightFormat::kNvfp4, "NVFP4", "NVFP4A16", 4, "tensor_group", 16,
     "torch.float8_e4m3fn", "nvfp4-pack-quantized",
     "NVFP4 W4A16_NVFP4 NVFP4_AWQ W4A8_NVFP4_FP8 NVFP4_SVD NVFP4_SVDQUANT"},
    {WeightFormat::kFp8, "FP8", "FP8", 8, "tensor", 0, "", kFloats, "FP8"},
    {WeightFormat::kFp8Dynamic, "FP8_DYNAMIC", "FP8_DYNAMIC", 8, "channel", 0,
     "", kFloats, "FP8_PER_CHANNEL_PER_TOKEN"},
    {WeightFormat::kFp8Block, "FP8_BLOCK", "FP8_BLOCK", 8, "block", 0, "",
     kFloats, "FP8_PB_WO FP8_BLOCK_SCALES"},
    {WeightFormat::kMxfp8, "MXFP8", "MXFP8", 8, "group", 32, "torch.uint8",
     "mxfp8-quantized float-quantized", "MXFP8"},
    {WeightFormat::kMxfp4, "MXFP4A16", "MXFP4A16", 4, "group", 32,
     "torch.uint8", "mxfp4-pack-quantized", "MXFP4 W4A16_MXFP4"},
};

}  // namespace

std::vector<TextFile> ConfigFiles(const Model& model,
                                  const ConversionPlan& plan) {
  std::vector<TextFile> files;
  if (model.single_file()) return files;
  if (!model.index_name().empty()) {
    files.push_back({model.index_name(), IndexText(plan)});
  }
  if (plan.dialect == Dialect::kModelOpt) {
    files.push_back(
        {std::string(kModelOptConfig),
         TextOf({{"producer", ModelOptProducer()},
                 {"quantization", ModelOptQuantization(model, plan)}})});
  }
  if (model.has_config()) {
    Json config = model.config();
    EraseQuantizations(&config);
    if (Json quantization = QuantizationConfig(model, plan);
        !quantization.is_null()) {
      config["quantization_config"] = std::move(quantization);
    }
    // config.json is last, because no program loads the directory without it.
    files.push_back({"config.json", TextOf(config)});
  }
  return files;
}

std::string ActivationsOf(const ConversionPlan& plan) {
  if (plan.dialect == Dialect::kNone) return "none";
  size_t measured = 0;
  for (const auto& [kind, names] : ModulesOf(plan)) {
    measured += kind.measured ? names.size() : 0;
  }
  if (measured > 0) {
    return fmt::format(
        "quantized with scales from --input-amax{}",
        measured == plan.weights()
            ? ""
            : fmt::format(", for {} of {} weights", measured, plan.weights()));
  }
  std::map<WeightFormat, size_t> formats;
  for (const auto& [format, count] : plan.formats()) {
    formats[StoredAs(format)] += count;
  }
  const bool narrow = formats.count(WeightFormat::kNvfp4) > 0 ||
                      formats.count(WeightFormat::kMxfp4) > 0;
  const bool wide = formats.size() > (formats.count(WeightFormat::kNvfp4) +
                                      formats.count(WeightFormat::kMxfp4));
  if (narrow && wide)
    return "not quantized for 4-bit weights, quantized at run time for the "
           "others";
  return narrow ? "not quantized" : "quantized at run time";
}

const SchemeRow* FindScheme(WeightFormat format) {
  for (const SchemeRow& row : kSchemes) {
    if (row.format == format) return &row;
  }
  return nullptr;
}

}  // namespace quantd::checkpoint
