#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/declared.h"
#include "client/checkpoint/lint/lint.h"
#include "client/checkpoint/names.h"
#include "client/checkpoint/repair/repair.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Warns the user that this repair does not restore the quantized activations.
constexpr char kWithoutInputs[] =
    "; input scales cannot be computed from the weights, so the model is now "
    "declared without them: engines do not quantize the inputs of 4-bit "
    "weights (W4A4 becomes W4A16), and scale those of 8-bit weights at run "
    "time. To have scales, convert the original with --input-amax";

class FilesPlanner {
 public:
  FilesPlanner(const Model& model, const Model* original,
               const WeightFacts& facts, RepairPlan* plan)
      : model_(model), original_(original), facts_(facts), plan_(plan) {}

  absl::Status Make() {
    const auto findings = Lint(model_, nullptr);
    if (!findings.ok()) return findings.status();
    for (const Finding& f : findings->findings) {
      if (f.rule == "file-format") {
        plan_->sets_format = true;
        Add(f.rule, f.where, "set its \"format\" to pt");
      }
      if (f.rule == "index" || f.rule == "stray-file") {
        Add(f.rule, f.where,
            f.rule == "index" ? "added all tensors to the index"
                              : "left the file out");
      }
    }
    const std::string_view prefix = WrapperOf(model_.tensors().front().name());
    if (!prefix.empty() &&
        std::ranges::all_of(model_.tensors(), [&](const auto& t) {
          return t.name().starts_with(prefix);
        })) {
      plan_->prefix = prefix;
      Add("wrapped-names", model_.tensors().front().name(),
          fmt::format("removed \"{}\" from all names", prefix));
      // With these prefixes modules cannot be examined. The next pass does it.
      return absl::OkStatus();
    }
    for (const Finding& f : findings->findings) {
      if (f.kind != kMisplaced || !LacksPrefix()) continue;
      plan_->new_prefix = kModelPrefix;
      Add(f.rule, f.where,
          fmt::format("added \"{}\" to all names except those of the head",
                      kModelPrefix));
      return absl::OkStatus();
    }
    LookAtConfig(findings->findings);
    // Compares settings only if the original is the right one.
    if (facts_.are_the_originals) {
      plan_->keys = DifferencesOf(*original_, model_);
      std::erase_if(plan_->keys, [](const auto& d) { return d.usual; });
    }
    for (const ConfigDifference& d : plan_->keys) {
      Add("config-original", kConfigFile,
          d.text +
              (d.value ? "; restored the original's value" : "; removed it"));
    }
    return absl::OkStatus();
  }

 private:
  void Add(std::string_view rule, const std::string& where,
           const std::string& text) {
    plan_->repairs.push_back({std::string(rule), where, text});
  }

  // Whether the names are those of a whole decoder without its prefix "model.".
  bool LacksPrefix() const {
    return std::ranges::all_of(model_.tensors(), [](const auto& t) {
      return IsOfHead(t.name()) || t.name().starts_with("layers.") ||
             t.name().starts_with("embed_tokens.") ||
             t.name().starts_with("norm.");
    });
  }

  void LookAtConfig(const std::vector<Finding>& findings) {
    for (const Finding& f : findings) {
      if (f.kind != kUnquantized) continue;
      plan_->dialect = Dialect::kNone;
      plan_->config = plan_->drops_quantization = true;
      Add(f.rule, f.where, f.text + "; removed the declaration");
      return;
    }
    if (model_.single_file() || !model_.has_config() ||
        plan_->dialect == Dialect::kComfy || plan_->dialect == Dialect::kNone) {
      return;
    }
    for (const Finding& f : findings) {
      if (!IsOfQuantization(f)) continue;
      plan_->config = true;
      if (f.kind == kTransforms || f.kind == kSparsity) {
        plan_->dropped.insert(f.kind);
      }
      Add(f.rule, f.where,
          f.text + (f.rule == "no-input-scale" ? kWithoutInputs
                    : f.rule == "ignore-list"
                        ? "; wrote a new list"
                        : "; wrote a description that fits the tensors"));
    }
    if (!plan_->config &&
        ConfiguredDialect(model_.config()) != plan_->dialect) {
      plan_->config = true;
      Add("config", "config.json",
          "wrote a description for the dialect of the tensors");
    }
  }

  // Whether the fault is in the description of the quantization, which can be
  // written anew from the tensors.
  bool IsOfQuantization(const Finding& f) const {
    if (f.rule == "no-input-scale") {
      return !facts_.have_input_scales;
    }
    // Whether weights are transformed is known only from comparing with the
    // original.
    if (f.rule == "config-mismatch" && f.kind == kTransforms) {
      return facts_.are_the_originals;
    }
    // Wrong names of parts are mended with their weights.
    if (f.rule == "config-mismatch") return f.kind != "names";
    const Json& config = model_.config();
    const bool of_model =
        f.kind == "model_type" || f.kind == "architectures" ||
        f.kind == kNotANumber ||
        (f.kind != "quantization_config" && config.contains(f.kind));
    return (f.rule == "config" || f.rule == "config-type" ||
            f.rule == "bad-pattern" || f.rule == "ignore-list") &&
           !of_model;
  }

  const Model& model_;
  const Model* original_;
  const WeightFacts& facts_;
  RepairPlan* plan_;
};

}  // namespace

absl::Status PlanFiles(const Model& model, const Model* original,
                       const WeightFacts& facts, RepairPlan* plan) {
  return FilesPlanner(model, original, facts, plan).Make();
}

}  // namespace quantd::checkpoint
