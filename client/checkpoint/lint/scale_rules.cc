#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/guess.h"
#include "client/checkpoint/check/input_scale.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/names.h"
#include "client/checkpoint/weight_values.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Counts how often each value occurs in a tensor of scales. One-byte scales
// have at most 256 different values.
struct Tally {
  uint64_t count = 0;
  uint64_t not_numbers = 0;
  std::vector<std::pair<float, uint64_t>> values;  // sorted by value

  static absl::StatusOr<Tally> Of(const Model& model, const ModelTensor& t) {
    Tally tally;
    std::map<float, uint64_t> values;
    const auto add = [&](float x, uint64_t times) {
      tally.count += times;
      if (std::isnan(x)) {
        tally.not_numbers += times;
      } else {
        values[x] += times;
      }
    };
    if (safetensors::BitsOf(t.stored.dtype) != 8) {
      const auto numbers = ReadNumbers(model, t);
      if (!numbers.ok()) return numbers.status();
      for (const float x : *numbers) add(x, 1);
    } else {
      std::array<uint64_t, 256> bytes = {};
      const auto s = model.ReadInPieces(
          t, size_t{1} << 20, [&](size_t, absl::Span<const std::byte> some) {
            for (const std::byte b : some) ++bytes[static_cast<uint8_t>(b)];
            return absl::OkStatus();
          });
      if (!s.ok()) return s;
      for (size_t i = 0; i < bytes.size(); ++i) {
        const auto byte = static_cast<std::byte>(i);
        if (bytes[i] > 0)
          add(NumberAt(t.stored.dtype, {&byte, 1}, 0), bytes[i]);
      }
    }
    tally.values.assign(values.begin(), values.end());
    return tally;
  }

  // Part of a message: in how many of all places a value occurs.
  static std::string Share(uint64_t some, uint64_t all) {
    return all == 1 ? "" : fmt::format(" in {} of {} places", some, all);
  }

  float middle() const {
    uint64_t seen = 0;
    for (const auto& [x, times] : values) {
      seen += times;
      if (2 * seen >= count) return x;
    }
    return 0;
  }
};

class ScaleRules : public Rules {
 public:
  using Rules::Rules;

  void CheckScales() {
    const bool all_large = ValueOf(AreAllLarge(model_, stored_));
    for (const StoredWeight& w : stored_.weights) {
      if (ValueOf(OrderOfScales(model_, w)) == ScaleOrder::kPadded) {
        Find("swizzled-scales", w.module,
             "its padding shows that its scales are stored row by "
             "row, but {} stores them swizzled; for weights "
             "without padding, only --original reveals this",
             Name(w.layout->dialect));
      }
      for (const PartSource source : {PartSource::kScales, PartSource::kGlobal,
                                      PartSource::kInputScale}) {
        const ModelTensor* part = w.part(source);
        if (part == nullptr) continue;
        const Tally tally = ValueOf(Tally::Of(model_, *part));
        // A weight that is all zeros may have any scales.
        if (linted_.compared.zeros.count(w.module) > 0) continue;
        CheckNumbers(w, source, *part, tally);
        if (source == PartSource::kGlobal && tally.count == 1 &&
            tally.not_numbers == 0) {
          CheckGlobal(w, tally.values.front().first, all_large);
        }
        if (source == PartSource::kScales) CheckRange(w, *part, tally);
      }
    }
  }

  void CheckNumbers(const StoredWeight& w, PartSource source,
                    const ModelTensor& part, const Tally& tally) {
    // The scale of a block of zeros may be zero.
    const bool zero_is_bad = source != PartSource::kScales ||
                             w.layout->scale_shape != ScaleShape::kBlocks;
    if (tally.not_numbers > 0) {
      Find("bad-scale", w.module, "{} is NaN{}", part.name(),
           Tally::Share(tally.not_numbers, tally.count));
    }
    for (const auto& [x, times] : tally.values) {
      if (std::isfinite(x) && x >= 0 && (x > 0 || !zero_is_bad)) continue;
      Find("bad-scale", w.module, "{} is {:.4g}{}", part.name(), x,
           Tally::Share(times, tally.count));
    }
    if (!zero_is_bad && tally.values.size() == 1 &&
        tally.values.front().first == 0) {
      Find("bad-scale", w.module, "{} is all zeros", part.name());
    }
  }

  // Finds scales that are implausible for any weight, or that were never filled
  // in.
  void CheckRange(const StoredWeight& w, const ModelTensor& part,
                  const Tally& tally) {
    float most = 0;
    for (const auto& [x, times] : tally.values) {
      if (std::isfinite(x)) most = std::max(most, x);
    }
    if (tally.values.empty()) return;
    const float least = tally.values.front().first;
    const FormatSpec& format = *FindFormat(w.layout->codes);
    const float largest = LimitsOf(format.element).max;
    // The factor 2: a power-of-two scale may be nearly twice the needed one.
    if (w.layout->global == Global::kNone && most > 2 * kMostAmax / largest) {
      Find("implausible-scale", w.module,
           "{} has a scale of {:.4g}, which implies weights as "
           "large as {:.3g}",
           part.name(), most, most * largest);
    }
    // Finds single scales that are far above the other scales of the weight.
    const float middle = tally.middle();
    const bool proven = linted_.compared.proven.count(w.module) > 0;
    if (!proven && w.layout->global == Global::kNone &&
        tally.count >= kSomeScales && middle > 0 &&
        most > kMostAbove * middle) {
      Find("implausible-scale", w.module,
           "{} has a scale of {:.4g}, although half of its scales "
           "are at most {:.4g}",
           part.name(), most, middle);
    }
    if (tally.count == 1) {
      ++singles_;
      ones_ += most == 1;
    }
    // Scales that are powers of two may all be equal, unless they are 1.
    int exponent = 0;
    const bool power = std::frexp(most, &exponent) == 0.5f;
    if (tally.count >= kManyScales && least == most && most > 0 &&
        (most == 1 || !power)) {
      Find("placeholder-scale", w.module, "all {} scales in {} are {:.4g}",
           tally.count, part.name(), most);
    }
    if (w.layout->global != Global::kNone && most > 0) {
      float& group = most_[GroupOf(w)];
      group = std::max(group, most);
    }
  }

  void CheckOnes() {
    if (singles_ < kManySingles || ones_ < singles_) return;
    Find("placeholder-scale", stored_.weights.front().module,
         "the scales of all {} weights are 1", singles_);
  }

  // Finds weights that use little of the range of block scales. The largest
  // NVFP4 block scale of weights with the same global scale should be 448, or
  // 256 for 4over6.
  void CheckUse() {
    for (const StoredWeight& w : stored_.weights) {
      const auto found = most_.find(GroupOf(w));
      if (found == most_.end() || found->second >= kLeastScale) continue;
      Find("unused-range", w.module,
           "its largest block scale is {:.3g}, but should be near 448",
           found->second);
    }
  }

  void CheckGlobal(const StoredWeight& w, float global, bool all_large) {
    globals_[w.module] = global;
    if (!(global > 0) || !std::isfinite(global)) return;
    if (linted_.compared.proven.count(w.module) == 0 &&
        IsReciprocal(w.layout->global, global, all_large)) {
      Find("divisor", w.module, "{} of {} implies weights as large as {:.3g}",
           w.layout->global == Global::kDivisor ? "a divisor" : "a multiplier",
           global, AmaxOf(w.layout->global, global));
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
      if (!IsPlainMatrix(t)) continue;
      const std::string module(ModuleOf(t.name()));
      const auto key = architecture_.FusionKey(module, t.stored.shape[1]);
      const bool guessed = key.find("#k=") != std::string::npos;
      if (!key.empty() && !guessed) plain.emplace(key, module);
    }
    for (const auto& [key, weights] : fused) {
      // ComfyUI does not fuse weights.
      const bool fuses = linted_.dialect != Dialect::kComfy;
      if (const auto found = plain.find(key); fuses && found != plain.end()) {
        IsAlone(*weights.front(), found->second);
      }
      for (const StoredWeight* w : weights) {
        const StoredWeight& first = *weights.front();
        if (w->layout != first.layout) {
          if (fuses) AreUnlike(first, *w);
        } else if (globals_.count(w->module) > 0 && architecture_.known() &&
                   globals_[w->module] != globals_[first.module]) {
          Find("fused-scales", w->module,
               "the global scale of {} is {}, but that of {} is {}",
               first.module, globals_[first.module], w->module,
               globals_[w->module]);
        }
      }
    }
  }

  // Finds layers whose experts differ in format. Engines use one for all.
  void CheckExperts() {
    if (linted_.dialect == Dialect::kComfy) return;
    std::map<std::string, const StoredWeight*> firsts;
    for (const StoredWeight& w : stored_.weights) {
      const std::string key = ExpertOf(w.module).before;
      if (key.empty()) continue;
      const StoredWeight& first = *firsts.emplace(key, &w).first->second;
      if (w.layout != first.layout) AreUnlike(first, w);
    }
    for (const ModelTensor& t : model_.tensors()) {
      if (!IsPlainMatrix(t)) continue;
      const std::string module(ModuleOf(t.name()));
      const auto first = firsts.find(ExpertOf(module).before);
      if (first != firsts.end()) IsAlone(*first->second, module);
    }
  }

 private:
  static constexpr float kMostAmax = 2688;
  static constexpr float kLeastScale = 3.5f;
  static constexpr size_t kSomeScales = 8;
  // Allowed ratio of the largest scale to the median. An outlier of 600 times
  // the rest gives up to 1,024 if scales are powers of two.
  static constexpr float kMostAbove = 2000;
  static constexpr size_t kManyScales = 64;
  static constexpr size_t kManySingles = 3;

  // Reports a plain weight that engines use together with a quantized one.
  void IsAlone(const StoredWeight& quantized, const std::string& plain) {
    Find("fused-in-part", plain, "{} is quantized, but {} is not",
         quantized.module, plain);
  }
  void AreUnlike(const StoredWeight& a, const StoredWeight& b) {
    // The dialects differ only in the shape of the scale, [] or [1].
    if (a.layout->format == WeightFormat::kFp8 &&
        b.layout->format == WeightFormat::kFp8) {
      return;
    }
    Find("fused-in-part", b.module, "{} is {}, but {} is {}", a.module,
         Name(a.layout->format), b.module, Name(b.layout->format));
  }

  std::string GroupOf(const StoredWeight& w) const {
    const auto key = architecture_.FusionKey(w.module, w.cols);
    return key.empty() ? w.module : key;
  }

  // Number of weights with a single scale, and how many of these scales are 1.
  size_t singles_ = 0;
  size_t ones_ = 0;
  std::map<std::string, float> globals_;
  // The largest block scale of weights with the same global scale, by
  // GroupOf().
  std::map<std::string, float> most_;
};

}  // namespace

void LintScales(const LintedModel& linted, Findings* findings) {
  ScaleRules rules(linted, findings);
  rules.CheckScales();
  rules.CheckFused();
  rules.CheckExperts();
  rules.CheckUse();
  rules.CheckOnes();
}

}  // namespace quantd::checkpoint
