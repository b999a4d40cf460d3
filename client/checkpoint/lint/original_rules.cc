#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "client/checkpoint/anatomy/storage.h"
#include "client/checkpoint/check/reading.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/stacked.h"
#include "client/files/quantized_file.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

std::string RatioText(double ratio) {
  if (std::isnan(ratio)) return "NaN";
  if (ratio > 100) return "more than 100 times the weights";
  return fmt::format("{:.0f} % of the weights", 100 * ratio);
}

// A gain this close to 2 counts as 2.
constexpr double kNearTwo = 0.02;

class OriginalRules : public Rules {
 public:
  OriginalRules(const Originals& originals, const LintedModel& linted,
                Findings* findings)
      : Rules(linted, findings), originals_(originals) {}

  void CheckQuantized() {
    for (const StoredWeight& w : stored_.weights) {
      const Readings found =
          ValueOf(FindReading(model_, w, originals_, linted_.sample));
      compared_.of += static_cast<size_t>(w.experts);
      compared_.quantized += found.compared;
      if (found.compared < static_cast<size_t>(w.experts)) {
        Find("no-counterpart", w.module, "{}",
             found.compared == 0
                 ? fmt::format("the original has no weight of that name with "
                               "the shape {} x {}",
                               w.rows, w.cols)
                 : fmt::format("the original has only {} of its {} experts",
                               found.compared, w.experts));
      }
      if (found.compared > 0) Tell(w, found);
      const bool whole = found.compared == static_cast<size_t>(w.experts);
      if (!whole || !found.right) continue;
      const Difference& d = found.right->difference;
      compared_.not_nearest += !d.rounding->to_nearest;
      if (!d.rounding->wrong.empty()) continue;
      compared_.proven.insert(w.module);
      if (d.signal == 0 && d.noise == 0) compared_.zeros.insert(w.module);
    }
  }

  void CheckPlain() {
    for (const ModelTensor& t : model_.tensors()) {
      if (IsPart(t) || !IsPlain(t) || IsScale(t.name())) {
        continue;
      }
      const ModelTensor* truth = originals_.model().Find(t.name());
      if (truth == nullptr) CheckMore(t);
      if (truth == nullptr || !IsPlain(*truth)) continue;
      if (truth->stored.shape != t.stored.shape) {
        Find("not-the-original", t.name(),
             "its shape differs from that in the original");
        continue;
      }
      const Difference d = ValueOf(
          Compare(model_, t, originals_.model(), *truth, linted_.sample));
      ++compared_.others;
      if (d.signal == 0 && d.noise == 0) compared_.zeros.insert(t.name());
      if (d.altered == 0) continue;
      Find("not-the-original", t.name(),
           "it is not quantized, but {} of its numbers changed; its error is "
           "{}",
           d.altered, RatioText(d.ratio()));
    }
  }

  // Finds tensors of the original that the model lacks.
  void CheckMissing() {
    const bool head =
        ValueOf(IsHeadNeeded(originals_.model(), model_.config(),
                             model_.model_type(), linted_.sample));
    std::set<std::string> there = stored_.modules();
    for (const ModelTensor& t : model_.tensors()) {
      there.insert(std::string(ModuleOf(t.name())));
    }
    const auto parts = originals_.stored().tensors();
    const auto quantized = originals_.stored().modules();
    for (const StoredWeight& w : originals_.stored().weights) {
      if (there.count(w.module) == 0) Missing(w.module);
    }
    for (const ModelTensor& t : originals_.model().tensors()) {
      const std::string module(ModuleOf(t.name()));
      if (parts.count(&t) > 0 || there.count(module) > 0 || !IsPlain(t) ||
          quantized.count(StorageOf(t.stored).module) > 0 ||
          IsScale(t.name()) || IsLeftOut(t.name()) || IsSplit(t, there) ||
          (!head && t.name().ends_with("lm_head.weight"))) {
        continue;
      }
      Missing(t.name());
    }
  }

  const ComparedWeights& compared() const { return compared_; }

 private:
  // Finds tensors that the original does not have.
  void CheckMore(const ModelTensor& t) {
    const std::string module(ModuleOf(t.name()));
    // Quantization may have separated a head from the embeddings that it was
    // tied to.
    if (module == "lm_head" || originals_.Find(module) != nullptr ||
        originals_.Find(module + ".0") != nullptr) {
      return;
    }
    const bool quantized = std::ranges::any_of(
        stored_.weights,
        [&](const StoredWeight& w) { return t.name().starts_with(w.module); });
    if (quantized) return;
    Find({"no-counterpart", "more"}, t.name(),
         "the original has no such tensor");
  }

  // Whether libraries leave the tensor out when saving.
  bool IsLeftOut(const std::string& name) const {
    return name.find("inv_freq") != std::string::npos ||
           name.find("masked_bias") != std::string::npos ||
           architecture_.RoleOf(ModuleOf(name)) == Role::kMultiToken;
  }

  // Whether the model has the stack as separate experts.
  bool IsSplit(const ModelTensor& t, const std::set<std::string>& there) const {
    if (!IsStacked(t)) return false;
    const auto weights = Unstack(originals_.model(), t, /*whole=*/false);
    return weights.ok() && !weights->empty() &&
           there.count(weights->front().module) > 0;
  }

  void Tell(const StoredWeight& w, const Readings& found) {
    if (!found.right) {
      const Difference& d = found.own;
      std::string text = fmt::format("its error is {}", RatioText(d.ratio()));
      if (d.wrong > 0 && d.wrong_rows < d.rows) {
        text += fmt::format(
            "; {} of the {} rows examined are mostly error ({}row {})",
            d.wrong_rows, d.rows, d.wrong_rows > 1 ? "first in " : "",
            d.first_wrong_row);
      } else if (d.wrong == 0 || d.is_multiple()) {
        text += fmt::format("; its values are {:.3g} times the original's",
                            d.gain());
        if (FindFormat(w.layout->codes)->element == DType::kE4M3 &&
            std::abs(d.gain() - 2) < kNearTwo) {
          text += ", as if codes of e4m3fnuz were read as e4m3";
        }
      } else {
        text +=
            "; if this is the right original, codes or scales are in another "
            "order or format than their names say";
      }
      Find("not-the-original", found.wrong, "{}", text + Others(w, found));
      return;
    }
    const Reading& r = *found.right;
    if (const std::string& wrong = r.difference.rounding->wrong;
        !wrong.empty()) {
      Find("not-the-original", found.wrong, "{}", wrong + Others(w, found));
    }
    const std::string before = RatioText(found.own.ratio());
    const std::string after = RatioText(r.difference.ratio());
    if (r.halves_swapped) {
      Find("nibble-order", w.module,
           "its error is {}, but only {} with the halves of bytes swapped",
           before, after);
    }
    if (r.order_swapped) {
      Find("swizzled-scales", w.module,
           "its error is {}, but only {} with the scales {}", before, after,
           w.layout->swizzled ? "read row by row" : "unswizzled");
    }
  }

  // Adds the number of wrong experts of a stack to a finding about one of them.
  static std::string Others(const StoredWeight& w, const Readings& found) {
    return found.wrongs < 2 ? ""
                            : fmt::format("; {} of its {} experts are wrong",
                                          found.wrongs, w.experts);
  }

  void Missing(const std::string& name) {
    Find({"no-counterpart", "missing"}, name,
         "the original has it, but the model does not");
  }

  const Originals& originals_;
  ComparedWeights compared_;
};

}  // namespace

ComparedWeights LintAgainst(const Model& original, const LintedModel& linted,
                            Findings* findings) {
  const auto originals = Originals::Of(original);
  if (!originals.ok()) {
    findings->Fail(originals.status());
    return {};
  }
  OriginalRules rules(*originals, linted, findings);
  rules.CheckQuantized();
  rules.CheckPlain();
  rules.CheckMissing();
  return rules.compared();
}

}  // namespace quantd::checkpoint
