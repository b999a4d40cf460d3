#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/lint/rules.h"
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
        CheckNumbers(w, source, *part, *numbers);
        if (source == PartSource::kGlobal && numbers->size() == 1) {
          CheckGlobal(w, (*numbers)[0]);
        }
        if (source == PartSource::kScales) CheckRange(w, *part, *numbers);
      }
    }
    return absl::OkStatus();
  }

  void CheckNumbers(const StoredWeight& w, PartSource source,
                    const ModelTensor& part,
                    const std::vector<float>& numbers) {
    // A block of zeros has a scale of zero.
    const bool zero_is_bad = source != PartSource::kScales ||
                             w.layout->scale_shape != ScaleShape::kBlocks;
    bool all_zero = !numbers.empty();
    for (const float x : numbers) {
      all_zero &= x == 0;
      if (std::isfinite(x) && x >= 0 && (x > 0 || !zero_is_bad)) continue;
      Find("bad-scale", w.module,
           fmt::format("{} holds {}", part.name(),
                       std::isnan(x) ? "NaN" : fmt::format("{:.4g}", x)));
      break;
    }
    if (all_zero && !zero_is_bad) {
      Find("bad-scale", w.module,
           fmt::format("{} holds nothing but zeros", part.name()));
    }
  }

  // Scales of weights that are none, or that nobody filled in.
  void CheckRange(const StoredWeight& w, const ModelTensor& part,
                  const std::vector<float>& numbers) {
    float least = std::numeric_limits<float>::infinity();
    float most = 0;
    for (const float x : numbers) {
      if (!std::isfinite(x)) continue;
      least = std::min(least, x);
      most = std::max(most, x);
    }
    if (!(least <= most)) return;
    const FormatSpec& format = *FindFormat(w.layout->codes);
    const float largest = LimitsOf(format.element).max;
    // A power of two may be nearly twice what the weight needs.
    if (w.layout->global == Global::kNone && most > 2 * kMostAmax / largest) {
      Find("implausible-scale", w.module,
           fmt::format("{} holds {:.4g}, which would mean weights as large as "
                       "{:.3g}",
                       part.name(), most, most * largest));
    }
    // One that is far above all others of its weight.
    if (w.layout->global == Global::kNone && numbers.size() >= kSomeScales) {
      std::vector<float> sorted = numbers;
      const auto middle =
          sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
      std::nth_element(sorted.begin(), middle, sorted.end());
      if (*middle > 0 && most > kMostAbove * *middle) {
        Find("implausible-scale", w.module,
             fmt::format("{} holds {:.4g}, and half of its scales are below "
                         "{:.4g}",
                         part.name(), most, *middle));
      }
    }
    if (numbers.size() == 1) {
      ++singles_;
      ones_ += most == 1;
    }
    // Those of a power of two may be one and the same.
    int exponent = 0;
    const bool power = std::frexp(most, &exponent) == 0.5f;
    if (numbers.size() >= kManyScales && least == most && most > 0 &&
        (most == 1 || !power)) {
      Find("placeholder-scale", w.module,
           fmt::format("all {} of {} are {:.4g}", numbers.size(), part.name(),
                       most));
    }
    if (w.layout->global != Global::kNone && most > 0) {
      float& group = most_[GroupOf(w)];
      group = std::max(group, most);
    }
  }

  void CheckOnes() {
    if (singles_ < kManySingles || ones_ < singles_) return;
    Find("placeholder-scale", stored_.weights.front().module,
         fmt::format("the scales of all {} weights are 1", singles_));
  }

  // Block scales of NVFP4 have 448 for the largest block of all that share the
  // global scale, or 256: what uses little of that rounds to few numbers.
  void CheckUse() {
    for (const StoredWeight& w : stored_.weights) {
      const auto found = most_.find(GroupOf(w));
      if (found == most_.end() || found->second >= kLeastScale) continue;
      Find("unused-range", w.module,
           fmt::format("its largest block scale is {:.3g}, of 448",
                       found->second));
    }
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
  static constexpr float kMostAmax = 2688;
  static constexpr float kLeastScale = 3.5f;
  static constexpr size_t kSomeScales = 8;
  static constexpr float kMostAbove = 1000;
  static constexpr size_t kManyScales = 64;
  static constexpr size_t kManySingles = 3;

  std::string GroupOf(const StoredWeight& w) const {
    const auto key = architecture_.FusionKey(w.module, w.cols);
    return key.empty() ? w.module : key;
  }

  void Find(std::string_view rule, const std::string& where,
            const std::string& text) {
    findings_.Add(rule, where, text);
  }

  const Model& model_;
  const StoredModel& stored_;
  const Architecture& architecture_;
  Findings& findings_;
  size_t singles_ = 0;  // weights with one scale, and those where it is 1
  size_t ones_ = 0;
  std::map<std::string, float> globals_;
  std::map<std::string, float> most_;  // block scale of what shares a global
};

}  // namespace

absl::Status LintScales(const LintedModel& linted, Findings* findings) {
  ScaleRules rules(linted, findings);
  if (auto s = rules.CheckScales(); !s.ok()) return s;
  rules.CheckFused();
  rules.CheckUse();
  rules.CheckOnes();
  return absl::OkStatus();
}

}  // namespace quantd::checkpoint
