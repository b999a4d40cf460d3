#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/rules.h"
#include "client/checkpoint/weight_values.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

class ScaleRules {
 public:
  ScaleRules(const LintedModel& linted, Findings* findings)
      : model_(linted.model),
        stored_(linted.stored),
        architecture_(linted.architecture),
        findings_(*findings) {}

  absl::Status CheckScales() {
    for (const StoredWeight& w : stored_.weights) {
      for (const PartSource source : {PartSource::kScales, PartSource::kGlobal,
                                      PartSource::kInputScale}) {
        const ModelTensor* part = w.part(source);
        if (part == nullptr) continue;
        const auto numbers = ReadNumbers(model_, *part);
        if (!numbers.ok()) return numbers.status();
        // A block of zeros has a scale of zero.
        const bool zero_is_bad = source != PartSource::kScales ||
                                 w.layout->scale_shape != ScaleShape::kBlocks;
        bool all_zero = !numbers->empty();
        for (const float x : *numbers) {
          all_zero &= x == 0;
          if (std::isfinite(x) && x >= 0 && (x > 0 || !zero_is_bad)) continue;
          Find("bad-scale", w.module,
               fmt::format("{} holds {}", part->name(), x));
          break;
        }
        if (all_zero && !zero_is_bad) {
          Find("bad-scale", w.module,
               fmt::format("{} holds nothing but zeros", part->name()));
        }
        if (source == PartSource::kGlobal && numbers->size() == 1) {
          CheckGlobal(w, (*numbers)[0]);
        }
      }
    }
    return absl::OkStatus();
  }

  void CheckGlobal(const StoredWeight& w, float global) {
    globals_[w.module] = global;
    if (!(global > 0) || !std::isfinite(global)) return;
    if (!IsPlausible(w.layout->global, global)) {
      Find("divisor", w.module,
           fmt::format("{} of {} would mean weights as large as {:.3g}",
                       w.layout->global == Global::kDivisor ? "a divisor"
                                                            : "a multiplier",
                       global, AmaxOf(w.layout->global, global)));
    }
  }

  void CheckFused() {
    std::map<std::string, std::vector<const StoredWeight*>> fused;
    std::map<std::string, std::string> plain;
    for (const StoredWeight& w : stored_.weights) {
      const auto key = architecture_.FusionKey(w.module, w.cols);
      if (!key.empty()) fused[key].push_back(&w);
    }
    for (const ModelTensor& t : model_.tensors()) {
      if (t.stored.shape.size() != 2 || !t.name().ends_with(".weight") ||
          safetensors::BitsOf(t.stored.dtype) < 16) {
        continue;
      }
      const std::string module(ModuleOf(t.name()));
      const auto key = architecture_.FusionKey(module, t.stored.shape[1]);
      if (!key.empty() && architecture_.known()) plain.emplace(key, module);
    }
    for (const auto& [key, weights] : fused) {
      if (const auto found = plain.find(key); found != plain.end()) {
        Find("fused-in-part", found->second,
             fmt::format("{} is quantized and {} is not",
                         weights.front()->module, found->second));
      }
      for (const StoredWeight* w : weights) {
        const StoredWeight& first = *weights.front();
        if (w->layout != first.layout) {
          Find("fused-in-part", w->module,
               fmt::format("{} is {} and {} is {}", first.module,
                           Name(first.layout->format), w->module,
                           Name(w->layout->format)));
        } else if (globals_.count(w->module) > 0 && architecture_.known() &&
                   globals_[w->module] != globals_[first.module]) {
          Find("fused-scales", w->module,
               fmt::format("{} has {} and {} has {}", first.module,
                           globals_[first.module], w->module,
                           globals_[w->module]));
        }
      }
    }
  }

 private:
  void Find(std::string_view rule, const std::string& where,
            const std::string& text) {
    findings_.Add(rule, where, text);
  }

  const Model& model_;
  const StoredModel& stored_;
  const Architecture& architecture_;
  Findings& findings_;
  std::map<std::string, float> globals_;
};

}  // namespace

absl::Status LintScales(const LintedModel& linted, Findings* findings) {
  ScaleRules rules(linted, findings);
  if (auto s = rules.CheckScales(); !s.ok()) return s;
  rules.CheckFused();
  return absl::OkStatus();
}

}  // namespace quantd::checkpoint
