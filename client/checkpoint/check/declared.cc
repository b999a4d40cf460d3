#include "client/checkpoint/check/declared.h"

#include <algorithm>

#include "client/checkpoint/anatomy/config_facts.h"
#include "client/files/words.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

ModuleList::Rule ListRuleOf(Dialect dialect) {
  switch (dialect) {
    case Dialect::kCompressedTensors:
      return ModuleList::Rule::kExactOrRegular;
    case Dialect::kModelOpt:
      return ModuleList::Rule::kGlobs;
    default:
      return ModuleList::Rule::kPrefixes;
  }
}

const Json* FirstMember(const Json* object,
                        std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const Json* found = Member(object, key)) return found;
  }
  return nullptr;
}

bool NamesLinear(const Json* targets) {
  if (targets == nullptr || !targets->is_array()) return false;
  return std::ranges::any_of(*targets, [](const Json& t) {
    const auto text = TextOf(&t);
    return text && text->find('.') == std::string::npos &&
           text->ends_with("Linear");
  });
}

// Types for which transformers ties the head by default.
constexpr std::string_view kTied[] = {
    "bloom",  "cohere",      "cohere2", "falcon",  "gemma",
    "gemma2", "gemma3_text", "gpt2",    "smollm3", "starcoder2"};
constexpr Words kUntied = R"(
    apertus arcee deepseek_v2 deepseek_v3 exaone4 glm glm4 glm4_moe gpt_neox
    gpt_oss granite granitemoe kimi_k2 llama llama4_text ministral mistral
    mixtral nemotron olmo olmo2 olmoe phi phi3 qwen2 qwen2_moe qwen3 qwen3_moe
    qwen3_next seed_oss stablelm)";

std::optional<bool> DeclaresTied(const Json* object) {
  const Json* tied = Member(object, kTiedHead);
  if (tied == nullptr || !tied->is_boolean()) return std::nullopt;
  return tied->get<bool>();
}

std::string FaultOf(const std::string& text, Json* json) {
  if (const std::string fault = ParseComfy(text, json); !fault.empty()) {
    return fault;
  }
  const Json* layers = Member(json, "layers");
  if (layers == nullptr || !layers->is_object()) {
    return fmt::format("has no object \"layers\", but: {}", Shown(json));
  }
  return "";
}

}  // namespace

std::optional<int64_t> ModelNumber(const Json& config, std::string_view key) {
  if (const auto own = IntegerOf(Member(&config, key))) return own;
  return IntegerOf(Member(Member(&config, "text_config"), key));
}

std::optional<bool> IsHeadTied(const Json& config, std::string_view type) {
  const auto outer = DeclaresTied(&config);
  const auto inner = DeclaresTied(Member(&config, "text_config"));
  if (outer && inner && *outer != *inner) return std::nullopt;
  if (outer || inner) return outer ? outer : inner;
  if (Has(kTied, type)) return true;
  if (Has(kUntied, type)) return false;
  return std::nullopt;
}

Declared::Declared(const Model& model)
    : config_(&model.config()), dialect_(ConfiguredDialect(model.config())) {
  auto file = model.single_file()
                  ? absl::StatusOr<Json>(absl::NotFoundError("a single file"))
                  : ReadConfig(model.folder().OpenFile(kModelOptFile));
  own_status_ = file.status();
  if (file.ok()) own_ = *std::move(file);
  if (quantization() == own() && own() != nullptr) {
    dialect_ = Dialect::kModelOpt;
  }
  const Json* q = quantization();
  const ModuleList::Rule rule = ListRuleOf(dialect_);
  ignored_ = ModuleList(FirstMember(q, {"ignore", "modules_to_not_convert",
                                        "ignored_layers", "exclude_modules"}),
                        rule);
  excluded_ =
      ModuleList(Member(own(), "exclude_modules"), ModuleList::Rule::kGlobs);
  const Json* groups = Member(q, "config_groups");
  if (dialect_ != Dialect::kCompressedTensors || groups == nullptr ||
      !groups->is_object()) {
    return;
  }
  for (const auto& [name, group] : groups->items()) {
    const Json* targets = Member(&group, "targets");
    groups_.push_back({"config_groups." + name, &group,
                       ModuleList(targets, rule), NamesLinear(targets)});
  }
}

const Json* Declared::quantization() const {
  const auto said = QuantizationsIn(*config_);
  const Json* q = said.empty() ? own() : said.front().json;
  return q != nullptr && q->is_object() ? q : nullptr;
}

const DeclaredGroup* Declared::GroupOf(std::string_view module) const {
  for (const DeclaredGroup& g : groups_) {
    if (g.targets.Names(module)) return &g;
  }
  for (const DeclaredGroup& g : groups_) {
    if (g.all_linear) return &g;
  }
  for (const DeclaredGroup& g : groups_) {
    if (g.targets.MayName(module)) return &g;
  }
  return nullptr;
}

std::string Declared::AlgorithmOf(std::string_view module) const {
  for (const Json* place : {own(), quantization()}) {
    const std::string all =
        TextOf(Member(place, "quant_algo")).value_or(std::string());
    if (all == "MIXED_PRECISION") {
      return TextOf(Member(Member(Member(place, "quantized_layers"), module),
                           "quant_algo"))
          .value_or(std::string());
    }
    if (!all.empty()) return all;
  }
  return "";
}

bool Declared::NeedsInputScale(const StoredWeight& w) const {
  switch (dialect_) {
    case Dialect::kCompressedTensors: {
      const DeclaredGroup* group = GroupOf(w.module);
      const Json* inputs =
          group ? Member(group->json, "input_activations") : nullptr;
      if (inputs == nullptr || !inputs->is_object()) return false;
      const Json* dynamic = Member(inputs, "dynamic");
      return dynamic == nullptr || *dynamic != true;
    }
    case Dialect::kModelOpt: {
      const std::string algorithm = AlgorithmOf(w.module);
      const Json* scheme = Member(own(), "activation_scheme");
      return (algorithm == "NVFP4" || algorithm == "FP8" ||
              algorithm == "NVFP4_AWQ") &&
             TextOf(scheme) != "dynamic";
    }
    case Dialect::kDeepSeek:
      return TextOf(Member(quantization(), "activation_scheme")) == "static";
    default:
      return false;
  }
}

bool Declared::HasCacheScales() const {
  const Json* scheme = Member(quantization(), "kv_cache_scheme");
  if (scheme != nullptr && scheme->is_object()) {
    const Json* dynamic = Member(scheme, "dynamic");
    return dynamic == nullptr || *dynamic != true;
  }
  const auto algorithm = TextOf(Member(own(), "kv_cache_quant_algo"));
  return algorithm && !algorithm->empty() && dialect_ == Dialect::kModelOpt;
}

std::string ParseComfy(const std::string& text, Json* json) {
  if (NestsTooDeep(text)) {
    return fmt::format("has more than {} levels of nesting", kMostNested);
  }
  *json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json->is_discarded() ? "is not valid JSON" : "";
}

ComfyMetadata ComfyMetadata::Of(const Model& model) {
  ComfyMetadata out;
  for (const ModelShard& shard : model.shards()) {
    const auto found = shard.file.metadata().find(kComfyMetadata);
    if (found == shard.file.metadata().end()) continue;
    out.shard = shard.name;
    Json json;
    out.fault = FaultOf(found->second, &json);
    if (!out.fault.empty()) return out;
    for (const auto& [module, layer] : json["layers"].items()) {
      out.layers.emplace(module, layer);
    }
  }
  return out;
}

const Json* ComfyMetadata::Find(std::string_view module) const {
  auto found = layers.find(module);
  const std::string_view prefix = kComfyPrefix;
  if (found == layers.end() && module.starts_with(prefix)) {
    found = layers.find(module.substr(prefix.size()));
  }
  return found == layers.end() ? nullptr : &found->second;
}

}  // namespace quantd::checkpoint
