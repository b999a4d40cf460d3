#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "client/checkpoint/anatomy/storage.h"
#include "client/checkpoint/check/declared.h"
#include "client/checkpoint/lint/rules.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Whether the configuration announces this part of the module.
bool IsAnnounced(const LintedModel& linted, const std::string& module,
                 std::string_view part) {
  const Declared& d = linted.declared;
  if (part == "pre_quant_scale") {
    return d.AlgorithmOf(module).find("AWQ") != std::string::npos ||
           d.AlgorithmOf(module).find("SVD") != std::string::npos;
  }
  if (part == "input_scale_ub") {
    return TextOf(Member(d.quantization(), "quant_method")) == "fbgemm_fp8";
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
      if (found == weights_.end() || IsPart(t) || IsKnownPart(part) ||
          IsAnnounced(linted_, found->first, part)) {
        continue;
      }
      Find({"unknown-part", part}, found->first,
           "it has a tensor {}, which the configuration does not mention",
           part);
    }
  }

  // Finds scales whose weight is missing.
  void CheckOrphans() {
    for (const UnclearWeight& u : stored_.orphans) {
      Find({"missing-weight", "orphan"}, u.module,
           "{} exists, but the weight that it scales does not",
           u.tensors.front()->name());
    }
  }

  void CheckLabels() {
    constexpr std::string_view kLabel = ".comfy_quant";
    constexpr size_t kMost = 1 << 16;
    const ComfyMetadata metadata = ComfyMetadata::Of(model_);
    bool others = false;
    if (!metadata.shard.empty()) CheckMetadata(metadata);
    // CheckMetadata has reported a fault of the whole metadata.
    if (!metadata.fault.empty()) return;
    for (const ModelTensor& t : model_.tensors()) {
      if (!t.name().ends_with(kLabel)) continue;
      others = true;
      const std::string module =
          t.name().substr(0, t.name().size() - kLabel.size());
      std::string text(std::min(t.stored.size, kMost), '\0');
      const auto bytes = absl::MakeSpan(
          reinterpret_cast<std::byte*>(text.data()), text.size());
      if (Succeeds(model_.Read(t, 0, bytes))) CheckLabel(module, text);
    }
    if (linted_.dialect != Dialect::kComfy && !others &&
        metadata.shard.empty()) {
      return;
    }
    for (const std::string& module : stored_.modules()) {
      if (model_.Find(module + std::string(kLabel)) != nullptr ||
          metadata.Find(module) != nullptr) {
        continue;
      }
      Find("label", module,
           "it has no comfy_quant{}: ComfyUI reads its codes as weights",
           !metadata.shard.empty()
               ? fmt::format(", and {} does not name it", kComfyMetadata)
           : others ? ", unlike other weights"
                    : "");
    }
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
      Find({"label", "metadata"}, metadata.shard, "its {} {}", kComfyMetadata,
           metadata.fault);
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
    Find({"label", "metadata"}, module, "{} of {} {}", kComfyMetadata,
         metadata.shard, what);
  }

  void CheckLabel(const std::string& module, const std::string& text) {
    Json json;
    std::string fault = ParseComfy(text, &json);
    const auto format = TextOf(Member(&json, "format"));
    if (fault.empty() && !json.is_object()) {
      fault = fmt::format("is {} instead of a JSON object", Shown(&json));
    } else if (fault.empty() && !format) {
      fault = fmt::format("has no \"format\", but: {}", Shown(&json));
    }
    if (!fault.empty()) {
      Find("label", module, "its comfy_quant {}", fault);
      return;
    }
    const auto found = weights_.find(module);
    if (found == weights_.end()) {
      if (model_.Find(module + ".weight") == nullptr) {
        Find("label", module, "it has a comfy_quant, but no weight");
      }
      return;
    }
    const StoredWeight& w = *found->second;
    const std::string_view want = LabelOf(w.layout->format);
    if (!want.empty() && *format != want) {
      Find("label", module, "its comfy_quant says {}, but it is {}", *format,
           Name(w.layout->format));
    }
    const Json* shape = Member(&json, "orig_shape");
    if (shape != nullptr && *shape != Json{w.rows, w.cols}) {
      Find("label", module,
           "its comfy_quant says orig_shape {}, but it is {} x {}",
           Shown(shape), w.rows, w.cols);
    }
  }

  std::map<std::string, const StoredWeight*, std::less<>> weights_;
};

}  // namespace

void LintParts(const LintedModel& linted, Findings* findings) {
  PartRules rules(linted, findings);
  rules.CheckParts();
  rules.CheckOrphans();
  rules.CheckLabels();
}

}  // namespace quantd::checkpoint
