#include "client/checkpoint/check/comfy_metadata.h"

#include "client/checkpoint/check/declared.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

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
