// Implements `quantctl repair`.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "client/checkpoint/convert/output_directory.h"
#include "client/checkpoint/lint/lint.h"
#include "client/checkpoint/repair/passes.h"
#include "client/quantctl/models/models.h"
#include "client/quantctl/models/plan_text.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

using checkpoint::FittedWeight;
using checkpoint::Model;
using checkpoint::Repaired;

std::string LossText(const FittedWeight& w) {
  if (!std::isfinite(w.loss.sqnr_db())) {
    return fmt::format("{}: fitted without loss", w.module);
  }
  return fmt::format(
      "{}: {} of {} block scales were rounded; SQNR {:.2f} dB relative to the "
      "weight before the repair",
      w.module, w.loss.rounded, w.loss.scales, w.loss.sqnr_db());
}

// Prints one repair of each rule and the number of others, or all repairs.
void PrintRepairs(const std::vector<Repaired>& repairs, bool all) {
  std::map<std::string, size_t> counts;
  for (const Repaired& r : repairs) ++counts[r.rule];
  std::map<std::string, bool> said;
  for (const Repaired& r : repairs) {
    if (said[r.rule] && !all) continue;
    said[r.rule] = true;
    const size_t more = all ? 0 : counts[r.rule] - 1;
    fmt::print("{}: {}: {}{}\n", r.rule, r.where, r.text,
               more > 0 ? fmt::format(", and {} more", more) : "");
  }
}

}  // namespace

int RunRepair(const Options& options, const CheckOptions& check) {
  const auto model = OpenModel(check.model);
  if (!model.ok()) return Fail(options, kBadInput, model.status());
  absl::StatusOr<Model> original = Model();
  const bool has_original = !check.original.empty();
  if (has_original) original = OpenModel(check.original);
  if (!original.ok()) return Fail(options, kBadInput, original.status());
  const Model* truth = has_original ? &*original : nullptr;
  const auto plan = PlanRepair(*model, truth, check.dialect);
  if (!plan.ok()) return FailToOpen(options, plan.status());
  bool nothing = plan->repairs.empty();
  checkpoint::RepairOutcome outcome;
  if (!nothing) {
    auto s =
        has_original ? CheckOutput(*original, check.other) : absl::OkStatus();
    // CheckOutput comes first, so that --force cannot remove the original.
    if (s.ok() || absl::IsAlreadyExists(s)) {
      s = Clear(*model, check.other, check.force);
    }
    if (!s.ok()) return Fail(options, kCannotWrite, s);
    auto made = RepairInPasses(*model, truth, *plan, check.other);
    if (!made.ok()) return Fail(options, kCannotWrite, made.status());
    outcome = *std::move(made);
  }
  // Lints the written model, to report only repairs that worked.
  const auto mended = OpenModel(nothing ? check.model : check.other);
  if (!mended.ok()) return Fail(options, kCannotWrite, mended.status());
  auto left = Lint(*mended, truth);
  if (!left.ok()) return Fail(options, kBadInput, left.status());
  // Ignores the finding that a model is not quantized: its files may need
  // repairs, too.
  std::erase_if(left->findings,
                [](const auto& f) { return f.rule == checkpoint::kNothing; });
  const int code = left->findings.empty() ? kOk : kFindings;
  const std::vector<Repaired> repairs = Mended(outcome.repairs, left->findings);
  // If no repair worked, the new model is removed.
  if (!nothing && repairs.empty()) {
    if (const auto s = checkpoint::RemoveOutput(check.other); !s.ok()) {
      return Fail(options, kCannotWrite, s);
    }
    nothing = true;
  }
  if (options.json) {
    Json json = {{"command", "repair"},
                 {"model", check.model},
                 {"output", nothing ? "" : check.other}};
    json["repairs"] = Json::array();
    for (const Repaired& r : repairs) {
      json["repairs"].push_back(
          {{"rule", r.rule}, {"where", r.where}, {"text", r.text}});
    }
    json["fitted"] = Json::array();
    for (const FittedWeight& w : outcome.fitted) {
      json["fitted"].push_back({{"module", w.module},
                                {"scales", w.loss.scales},
                                {"rounded", w.loss.rounded},
                                {"sqnr_db", w.loss.sqnr_db()}});
    }
    json["left"] = Json::array();
    for (const auto& f : left->findings) {
      json["left"].push_back({{"rule", f.rule},
                              {"where", f.where},
                              {"text", f.text},
                              {"count", f.count}});
    }
    json["exit_code"] = code;
    Event(json);
    return code;
  }
  if (nothing) {
    fmt::print("{}: {}; {} is not written\n", check.model,
               left->findings.empty() ? "no faults to repair"
                                      : "none of the faults can be repaired",
               check.other);
  } else {
    PrintRepairs(repairs, options.verbose);
    for (const FittedWeight& w : outcome.fitted) {
      fmt::print("{}\n", LossText(w));
    }
    fmt::print("wrote {}\n", check.other);
  }
  for (const auto& f : left->findings) {
    fmt::print("left: {}: {}\n", f.rule, TextOf(f));
  }
  if (!left->findings.empty() && !has_original) {
    fmt::print(
        "With --original MODEL, repair may find more. Converting the original "
        "again removes all faults.\n");
  }
  return code;
}

}  // namespace quantd::quantctl
