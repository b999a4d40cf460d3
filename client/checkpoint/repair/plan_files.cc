#include "client/checkpoint/repair/plan_files.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/check/declared.h"
#include "client/checkpoint/check/layer_names.h"
#include "client/checkpoint/lint/lint.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Tells the user that this does not restore what was lost.
constexpr char kWeightsOnly[] =
    "; the scales cannot be had from the weights, so that the label becomes "
    "that of weights alone: activations are no longer quantized, W4A4 becomes "
    "W4A16. To have them, convert the original with --input-amax";

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
        Add(f.rule, f.where, "its \"format\" becomes pt");
      }
      if (f.rule == "index" || f.rule == "stray-file") {
        Add(f.rule, f.where,
            f.rule == "index" ? "the index names all tensors"
                              : "it is left out");
      }
    }
    for (const std::string_view prefix : {"_orig_mod.", "module."}) {
      const bool all = std::all_of(
          model_.tensors().begin(), model_.tensors().end(),
          [&](const auto& t) { return t.name().starts_with(prefix); });
      if (!all) continue;
      plan_->prefix = prefix;
      Add("wrapped-names", model_.tensors().front().name(),
          fmt::format("all names lose their \"{}\"", prefix));
      // With stale names nothing can be said about modules.
      return absl::OkStatus();
    }
    for (const Finding& f : findings->findings) {
      if (f.kind != kMisplaced || !LacksPrefix()) continue;
      plan_->new_prefix = kModelPrefix;
      Add(f.rule, f.where,
          fmt::format("all names but those of the head get \"{}\"",
                      kModelPrefix));
      return absl::OkStatus();
    }
    LookAtConfig(findings->findings);
    // Keys of another model are not compared.
    if (facts_.are_the_originals) {
      plan_->keys = DifferencesOf(*original_, model_);
    }
    for (const ConfigDifference& d : plan_->keys) {
      Add("config-original", kConfigFile,
          d.text + (d.value ? ": it becomes that" : ": it goes"));
    }
    return absl::OkStatus();
  }

 private:
  void Add(std::string_view rule, const std::string& where,
           const std::string& text) {
    plan_->repairs.push_back({std::string(rule), where, text});
  }

  // Whether the names are those of a whole decoder without its prefix.
  bool LacksPrefix() const {
    return std::all_of(
        model_.tensors().begin(), model_.tensors().end(), [](const auto& t) {
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
      Add(f.rule, f.where, f.text + ": what says so goes");
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
          f.text + (f.rule == "no-input-scale" ? kWeightsOnly
                    : f.rule == "ignore-list"
                        ? ": the list is written anew"
                        : ": it is written anew, as the tensors are"));
    }
    if (!plan_->config &&
        ConfiguredDialect(model_.config()) != plan_->dialect) {
      plan_->config = true;
      Add("config", "config.json", "it names no dialect or another one");
    }
  }

  // Whether the tensors determine how to write it: all of quantization_config,
  // and of the model only its type.
  bool IsOfQuantization(const Finding& f) const {
    if (f.rule == "no-input-scale") {
      return !facts_.have_input_scales;
    }
    // Transforms of weights can be recognized only with the original.
    if (f.rule == "config-mismatch" && f.kind == kTransforms) {
      return facts_.are_the_originals;
    }
    // Names of parts are mended with their weights.
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
