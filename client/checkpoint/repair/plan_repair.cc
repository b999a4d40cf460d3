// Implements PlanRepair.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/declared.h"
#include "client/checkpoint/check/guess.h"
#include "client/checkpoint/check/input_scale.h"
#include "client/checkpoint/check/reading.h"
#include "client/checkpoint/lint/lint.h"
#include "client/checkpoint/repair/repair.h"
#include "client/checkpoint/weight_values.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

// The least that the largest block scale of a weight should be. Encoders make
// that scale 448, or somewhat less if a larger weight shares the global scale.
constexpr float kLargeScale = 32;

constexpr char kGetsSwizzled[] =
    "swizzled its scales, which were stored row by row";

class Planner {
 public:
  Planner(const Model& model, const Model* original, Dialect dialect)
      : model_(model), original_(original), sample_(model) {
    plan_.dialect = dialect;
  }

  absl::StatusOr<RepairPlan> Make() {
    const auto stored = FindStored(model_);
    if (!stored.ok()) return stored.status();
    SettleDialect(*stored);
    if (auto s = LookAtLabels(*stored); !s.ok()) return s;
    if (original_ != nullptr) {
      auto originals = Originals::Of(*original_);
      if (!originals.ok()) return originals.status();
      originals_ = *std::move(originals);
      is_the_original_ = true;
    }
    const auto amaxes = AreAmaxes(model_, *stored);
    if (!amaxes.ok()) return amaxes.status();
    are_amaxes_ = *amaxes;
    const auto all_large = AreAllLarge(model_, *stored);
    if (!all_large.ok()) return all_large.status();
    all_large_ = *all_large;
    const auto reciprocals = AreReciprocals(model_, *stored);
    if (!reciprocals.ok()) return reciprocals.status();
    are_reciprocals_ = *reciprocals;
    for (const StoredWeight& w : stored->weights) {
      const bool of_comfy = plan_.dialect == Dialect::kComfy &&
                            w.layout->dialect != Dialect::kComfy;
      if (of_comfy || IsOfAnother(w, plan_.dialect)) {
        Guess(w.module, "dialect");
      } else if (plan_.dialect == Dialect::kDeepSeek &&
                 w.layout->format == WeightFormat::kFp8Block &&
                 w.layout->dialect != Dialect::kDeepSeek) {
        Guess(w.module, "config-mismatch");
      } else if (auto s = LookAt(w); !s.ok()) {
        return s;
      }
    }
    for (const UnclearWeight& u : stored->unclear)
      Guess(u.module, "unclear-layout");
    if (auto s = Share(); !s.ok()) return s;
    WeightFacts facts = {is_the_original_};
    for (const MendedWeight& m : weights_) {
      facts.have_input_scales |=
          m.weight.part(PartSource::kInputScale) != nullptr;
    }
    if (auto s = PlanFiles(model_, original_, facts, &plan_); !s.ok()) return s;
    std::erase_if(weights_, [](const auto& m) { return !m.changed; });
    plan_.weights = std::move(weights_);
    return std::move(plan_);
  }

 private:
  void SettleDialect(const StoredModel& stored) {
    if (plan_.dialect != Dialect::kNone) return;
    plan_.dialect = LikelyDialect(model_, stored);
    if (plan_.dialect != Dialect::kNone || stored.weights.empty() ||
        IsOfQuark(model_.config())) {
      return;
    }
    plan_.dialect = stored.weights.front().layout->dialect;
  }

  void Add(std::string_view rule, const std::string& where,
           const std::string& text) {
    plan_.repairs.push_back({std::string(rule), where, text});
  }

  // Plans the repair of a weight with the names, types and shapes of its
  // dialect.
  absl::Status LookAt(const StoredWeight& w) {
    MendedWeight m;
    m.weight = w;
    const auto order = OrderOfScales(model_, w);
    if (!order.ok()) return order.status();
    m.order = *order;
    if (*order == ScaleOrder::kPadded) {
      m.changed = true;
      Add("swizzled-scales", w.module, kGetsSwizzled);
    }
    if (w.part(PartSource::kGlobal) != nullptr && w.experts == 1) {
      if (auto s = LookAtGlobal(&m); !s.ok()) return s;
    }
    if (original_ != nullptr) {
      if (auto s = LookAtReading(&m); !s.ok()) return s;
    }
    if (auto s = LookAtBadScales(&m); !s.ok()) return s;
    if (are_reciprocals_ && w.part(PartSource::kInputScale) != nullptr) {
      m.inverts_input = m.changed = true;
      Add("input-scale", w.module,
          "replaced its input scale by the reciprocal");
    }
    if (w.layout->dialect == Dialect::kComfy &&
        w.part(PartSource::kLabel) == nullptr && !IsNamed(w)) {
      m.add_label = m.changed = true;
      Add("label", w.module, "added the missing comfy_quant");
    }
    weights_.push_back(std::move(m));
    return absl::OkStatus();
  }

  // Whether kComfyMetadata names the weight and is kept.
  bool IsNamed(const StoredWeight& w) const {
    return !plan_.drops_labels && labels_.Find(w.module) != nullptr;
  }

  // Replaces invalid kComfyMetadata by a label for each weight, if all weights
  // are in ComfyUI's dialect.
  absl::Status LookAtLabels(const StoredModel& stored) {
    labels_ = ComfyMetadata::Of(model_);
    if (labels_.shard.empty()) return absl::OkStatus();
    for (const StoredWeight& w : stored.weights) {
      if (w.layout->dialect != Dialect::kComfy) return absl::OkStatus();
    }
    const auto findings = Lint(model_, nullptr);
    if (!findings.ok()) return findings.status();
    for (const Finding& f : findings->findings) {
      if (f.rule != "label") continue;
      plan_.drops_labels = true;
      Add(f.rule, f.where,
          fmt::format("replaced {} by a comfy_quant for each quantized weight",
                      kComfyMetadata));
      return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  absl::Status LookAtGlobal(MendedWeight* m) {
    const StoredWeight& w = m->weight;
    const auto numbers = ReadNumbers(model_, *w.part(PartSource::kGlobal));
    if (!numbers.ok()) return numbers.status();
    if (numbers->size() != 1) return absl::OkStatus();
    const float number = numbers->front();
    const Global rule = w.layout->global;
    m->global = number;
    if (!std::isfinite(number) || number <= 0) return LookAtZeros(m);
    if (!are_amaxes_ && !IsReciprocal(rule, number, all_large_)) {
      return absl::OkStatus();
    }
    // The corrected number must not be a reciprocal in turn, and the largest
    // block scales must be about as large as an encoder makes them.
    const float other = are_amaxes_ ? GlobalOf(rule, number) : 1.0f / number;
    const auto scales = ReadNumbers(model_, *w.part(PartSource::kScales));
    if (!scales.ok()) return scales.status();
    const bool used = std::ranges::any_of(
        *scales, [](float x) { return x >= kLargeScale && x <= 448; });
    if (!std::isfinite(other) || IsReciprocal(rule, other, true) || !used) {
      return absl::OkStatus();
    }
    if (original_ != nullptr) {
      const auto found = FindReading(model_, w, originals_, sample_);
      if (!found.ok()) return found.status();
      const double ratio = static_cast<double>(other) / number;
      const double gain = rule == Global::kDivisor ? 1 / ratio : ratio;
      if (found->compared > 0 &&
          !(found->own.noise_times(gain) < found->own.noise)) {
        return absl::OkStatus();
      }
    }
    m->global = other;
    m->changed = true;
    Add("divisor", w.module,
        fmt::format("replaced the global scale {}{} by {}", number,
                    are_amaxes_ ? ", which is the weight's amax," : "", other));
    return absl::OkStatus();
  }

  // Recognizes a weight that is all zeros, for which ModelOpt divides zero by
  // zero.
  absl::Status LookAtZeros(MendedWeight* m) {
    const StoredWeight& w = m->weight;
    const auto scales = ReadNumbers(model_, *w.part(PartSource::kScales));
    if (!scales.ok()) return scales.status();
    const bool none =
        std::ranges::all_of(*scales, [](float x) { return std::isnan(x); });
    if (!none) return absl::OkStatus();
    m->is_zero = true;
    m->new_global = 1.0f;
    m->changed = true;
    Add("bad-scale", w.module,
        "set NaN scales and the global scale to 1, because the weight is all "
        "zeros");
    return absl::OkStatus();
  }

  // Finds scales that are NaN or infinite in blocks of zeros, which would
  // decode to NaN.
  absl::Status LookAtBadScales(MendedWeight* m) {
    const StoredWeight& w = m->weight;
    const bool own = (m->order == ScaleOrder::kSwizzled) == w.layout->swizzled;
    const auto& global = m->global;
    if (m->is_zero || !own ||
        (global && (!std::isfinite(*global) || *global <= 0))) {
      return absl::OkStatus();
    }
    for (int64_t e = 0; e < w.experts; ++e) {
      const auto bad = WeightValues(model_, w, e).BadScalesOfZeros();
      if (!bad.ok()) return bad.status();
      m->bad_scales.insert(m->bad_scales.end(), bad->begin(), bad->end());
    }
    if (m->bad_scales.empty()) return absl::OkStatus();
    m->changed = true;
    Add("bad-scale", w.module,
        fmt::format("set {} scales to 1 that were NaN or infinite, because "
                    "their blocks are zeros",
                    m->bad_scales.size()));
    return absl::OkStatus();
  }

  absl::Status LookAtReading(MendedWeight* m) {
    const StoredWeight& w = m->weight;
    const auto found = FindReading(model_, w, originals_, sample_);
    if (!found.ok()) return found.status();
    is_the_original_ &= found->right.has_value();
    if (!found->right) return absl::OkStatus();
    if (found->right->halves_swapped) {
      m->swap_halves = m->changed = true;
      Add("nibble-order", w.module, "swapped the halves of its bytes");
    }
    if (found->right->order_swapped) {
      m->order =
          w.layout->swizzled ? ScaleOrder::kLinear : ScaleOrder::kSwizzled;
      m->changed = true;
      Add("swizzled-scales", w.module,
          w.layout->swizzled ? kGetsSwizzled : "unswizzled its scales");
    }
    return absl::OkStatus();
  }

  // Plans the repair of a weight that fits no dialect. If GuessWeight fails,
  // the weight stays unchanged and lint still reports it.
  void Guess(const std::string& module, const char* rule) {
    const auto guess = GuessWeight(model_, module, plan_.dialect);
    if (!guess.ok()) return;
    if (plan_.dialect == Dialect::kNone) {
      plan_.dialect = guess->weight.layout->dialect;
    }
    MendedWeight m;
    m.changed = true;
    m.weight = guess->weight;
    m.order = guess->order;
    m.global = guess->global;
    if (guess->weight.layout->dialect == Dialect::kComfy &&
        guess->weight.part(PartSource::kLabel) == nullptr &&
        !IsNamed(guess->weight)) {
      m.add_label = true;
      Add("label", module, "added the missing comfy_quant");
    }
    Add(RuleOfOrder(*guess, rule), module,
        guess->oddities.empty()
            ? "gave its parts the shapes of the dialect"
            : fmt::format("corrected: {}", fmt::join(guess->oddities, ", ")));
    weights_.push_back(std::move(m));
  }

  // Gives weights that engines fuse the global scale of the largest amax.
  absl::Status Share() {
    const auto architecture = Architecture::Of(model_, {});
    if (!architecture.ok()) return architecture.status();
    if (!architecture->known()) return absl::OkStatus();
    std::map<std::pair<std::string, const WeightLayout*>,
             std::vector<MendedWeight*>>
        fused;
    for (MendedWeight& m : weights_) {
      const StoredWeight& w = m.weight;
      if (!m.global) continue;
      const auto key = architecture->FusionKey(w.module, w.cols);
      if (!key.empty()) fused[{key, w.layout}].push_back(&m);
    }
    for (const auto& [key, members] : fused) {
      const Global rule = key.second->global;
      const MendedWeight* largest = nullptr;
      for (const MendedWeight* m : members) {
        const float global = *m->global;
        if (m->is_zero || !(global > 0) ||
            IsReciprocal(rule, global, all_large_)) {
          continue;
        }
        if (largest == nullptr ||
            AmaxOf(rule, global) > AmaxOf(rule, *largest->global)) {
          largest = m;
        }
      }
      if (largest == nullptr) continue;
      for (MendedWeight* m : members) {
        if (m->global == largest->global) continue;
        const bool readable =
            m->is_zero ||
            (*m->global > 0 && !IsReciprocal(rule, *m->global, all_large_));
        if (!readable) continue;
        m->new_global = largest->global;
        m->changed = true;
        Add("fused-scales", m->weight.module,
            fmt::format("replaced its global scale {} by {}, that of {}, and "
                        "fitted its block scales to it",
                        *m->global, *largest->global, largest->weight.module));
      }
    }
    return absl::OkStatus();
  }

  const Model& model_;
  const Model* original_;
  const RowSample sample_;
  Originals originals_;
  RepairPlan plan_;
  ComfyMetadata labels_;
  std::vector<MendedWeight> weights_;
  // all weights compared so far equal the original
  bool is_the_original_ = false;
  bool are_amaxes_ = false;       // the global scales are amaxes
  bool all_large_ = false;        // result of AreAllLarge
  bool are_reciprocals_ = false;  // the input scales are reciprocals
};

}  // namespace

absl::StatusOr<RepairPlan> PlanRepair(const Model& model, const Model* original,
                                      Dialect dialect) {
  return Planner(model, original, dialect).Make();
}

}  // namespace quantd::checkpoint
