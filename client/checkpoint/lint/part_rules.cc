#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/check/comfy_metadata.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/pattern.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Last names of tensors of a quantized weight that engines know.
constexpr std::string_view kKnownParts[] = {"weight",
                                            "weight_packed",
                                            "weight_shape",
                                            "input_scale",
                                            "input_global_scale",
                                            "output_scale",
                                            "bias",
                                            "comfy_quant",
                                            "k_scale",
                                            "v_scale",
                                            "q_scale",
                                            "kv_scale",
                                            "e_score_correction_bias"};

// Whether the configuration announces this part of the module.
bool IsAnnounced(const LintedModel& linted, const std::string& module,
                 std::string_view part) {
  const Declared& d = linted.declared;
  if (part == "pre_quant_scale") {
    return d.AlgorithmOf(module).find("AWQ") != std::string::npos ||
           d.AlgorithmOf(module).find("SVD") != std::string::npos;
  }
  const DeclaredGroup* group = d.GroupOf(module);
  const Json* weights = group ? Member(group->json, "weights") : nullptr;
  const Json* inputs =
      group ? Member(group->json, "input_activations") : nullptr;
  const auto asymmetric = [](const Json* scheme) {
    const Json* symmetric = Member(scheme, "symmetric");
    return symmetric != nullptr && *symmetric == false;
  };
  if (part == "weight_g_idx")
    return Member(weights, "actorder") != nullptr &&
           !Member(weights, "actorder")->is_null();
  if (part == "weight_zero_point") return asymmetric(weights);
  if (part == "input_zero_point") return asymmetric(inputs);
  // compressed-tensors stores transforms as parts of the weights.
  const Json* transforms = Member(d.quantization(), "transform_config");
  return transforms != nullptr && transforms->is_object() &&
         !transforms->empty();
}

class PartRules : public Rules {
 public:
  PartRules(const LintedModel& linted, Findings* findings)
      : Rules(linted, findings) {
    for (const StoredWeight& w : linted.stored.weights) {
      weights_[w.module] = &w;
    }
  }

  void CheckParts() {
    for (const ModelTensor& t : model_.tensors()) {
      const auto [module, part] = SplitModule(t.name());
      const auto found = weights_.find(module);
      if (found == weights_.end() || IsPart(t) || Has(kKnownParts, part) ||
          IsAnnounced(linted_, found->first, part)) {
        continue;
      }
      Find("unknown-part", found->first,
           fmt::format(
               "it has a tensor {}, which the configuration does not mention",
               part),
           part);
    }
  }

  // Finds scales whose weight is missing.
  void CheckOrphans() {
    for (const UnclearWeight& u : stored_.orphans) {
      Find("missing-weight", u.module,
           fmt::format("{} exists, but the weight that it scales does not",
                       u.tensors.front()->name()),
           "orphan");
    }
  }

  absl::Status CheckLabels() {
    constexpr std::string_view kLabel = ".comfy_quant";
    constexpr size_t kMost = 1 << 16;
    const ComfyMetadata metadata = ComfyMetadata::Of(model_);
    bool others = false;
    if (!metadata.shard.empty()) CheckMetadata(metadata);
    // CheckMetadata has reported a fault of the whole metadata.
    if (!metadata.fault.empty()) return absl::OkStatus();
    for (const ModelTensor& t : model_.tensors()) {
      if (!t.name().ends_with(kLabel)) continue;
      others = true;
      const std::string module =
          t.name().substr(0, t.name().size() - kLabel.size());
      std::string text(std::min(t.stored.size, kMost), '\0');
      const auto s =
          model_.Read(t, 0,
                      absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()),
                                     text.size()));
      if (!s.ok()) return s;
      CheckLabel(module, text);
    }
    if (linted_.dialect != Dialect::kComfy && !others &&
        metadata.shard.empty()) {
      return absl::OkStatus();
    }
    std::vector<std::string> modules;
    for (const StoredWeight& w : stored_.weights) {
      modules.push_back(w.module);
    }
    for (const UnclearWeight& u : stored_.unclear) {
      modules.push_back(u.module);
    }
    for (const std::string& module : modules) {
      if (model_.Find(module + std::string(kLabel)) != nullptr ||
          metadata.Find(module) != nullptr) {
        continue;
      }
      Find("label", module,
           fmt::format(
               "it has no comfy_quant{}: ComfyUI reads its codes as weights",
               !metadata.shard.empty()
                   ? fmt::format(", and {} does not name it", kComfyMetadata)
               : others ? ", unlike other weights"
                        : ""));
    }
    return absl::OkStatus();
  }

 private:
  static std::string_view LabelOf(WeightFormat format) {
    switch (format) {
      case WeightFormat::kNvfp4:
        return "nvfp4";
      case WeightFormat::kFp8:
        return "float8_e4m3fn";
      case WeightFormat::kMxfp8:
        return "mxfp8";
      default:
        return "";
    }
  }

  void CheckMetadata(const ComfyMetadata& metadata) {
    if (!metadata.fault.empty()) {
      Find("label", metadata.shard,
           fmt::format("its {} {}", kComfyMetadata, metadata.fault),
           "metadata");
    }
    std::set<const Json*> weights;
    for (const auto& [module, weight] : weights_) {
      const Json* layer = metadata.Find(module);
      if (layer == nullptr) continue;
      weights.insert(layer);
      const auto format = TextOf(Member(layer, "format"));
      const std::string_view want = LabelOf(weight->layout->format);
      if (!format) {
        FindSaid(
            metadata, module,
            fmt::format("has no \"format\" for it, but: {}", Shown(layer)));
      } else if (!want.empty() && *format != want) {
        FindSaid(metadata, module,
                 fmt::format("says {}, but it is {}", *format,
                             Name(weight->layout->format)));
      }
    }
    for (const auto& [module, layer] : metadata.layers) {
      if (weights.count(&layer) > 0) continue;
      const ModelTensor* t = nullptr;
      for (const std::string_view prefix : {"", kComfyPrefix}) {
        const auto* found =
            model_.Find(fmt::format("{}{}.weight", prefix, module));
        if (found != nullptr) t = found;
      }
      // Skips quantized weights of unknown formats.
      if (t != nullptr && safetensors::BitsOf(t->stored.dtype) < 16) continue;
      FindSaid(metadata, module,
               t == nullptr ? "names it, but there is no such weight"
                            : "names it, but it is not quantized");
    }
  }

  void FindSaid(const ComfyMetadata& metadata, const std::string& module,
                const std::string& what) {
    Find("label", module,
         fmt::format("{} of {} {}", kComfyMetadata, metadata.shard, what),
         "metadata");
  }

  void CheckLabel(const std::string& module, const std::string& text) {
    const auto find = [&](const std::string& what) {
      Find("label", module, what);
    };
    if (NestsTooDeep(text)) {
      return find(fmt::format(
          "its comfy_quant has more than {} levels of nesting", kMostNested));
    }
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) {
      find(json.is_discarded()
               ? "its comfy_quant is not valid JSON"
               : fmt::format("its comfy_quant is {} instead of a JSON object",
                             Shown(&json)));
      return;
    }
    const auto format = TextOf(Member(&json, "format"));
    if (!format) {
      find(fmt::format("its comfy_quant has no \"format\", but: {}",
                       Shown(&json)));
      return;
    }
    const auto found = weights_.find(module);
    if (found == weights_.end()) {
      if (model_.Find(module + ".weight") == nullptr) {
        find("it has a comfy_quant, but no weight");
      }
      return;
    }
    const StoredWeight& w = *found->second;
    const std::string_view want = LabelOf(w.layout->format);
    if (!want.empty() && *format != want) {
      find(fmt::format("its comfy_quant says {}, but it is {}", *format,
                       Name(w.layout->format)));
    }
    const Json* shape = Member(&json, "orig_shape");
    if (shape != nullptr && *shape != Json{w.rows, w.cols}) {
      find(fmt::format("its comfy_quant says orig_shape {}, but it is {} x {}",
                       Shown(shape), w.rows, w.cols));
    }
  }

  std::map<std::string, const StoredWeight*, std::less<>> weights_;
};

}  // namespace

absl::Status LintParts(const LintedModel& linted, Findings* findings) {
  PartRules rules(linted, findings);
  rules.CheckParts();
  rules.CheckOrphans();
  return rules.CheckLabels();
}

}  // namespace quantd::checkpoint
