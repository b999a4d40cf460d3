// Implements `quantctl lint` and `quantctl repair`.

#include "client/checkpoint/lint/lint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/checkpoint/convert/output_directory.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/repair/repair.h"
#include "client/quantctl/models/models.h"
#include "client/quantctl/terminal/terminal.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::quantctl {
namespace {

using checkpoint::FittedWeight;
using checkpoint::Linted;
using checkpoint::Model;
using checkpoint::Remedy;
using checkpoint::Repaired;

// Describes how much was examined.
std::string LookedAt(const Linted& linted, bool has_original) {
  std::string text = fmt::format("{} quantized weights", linted.weights);
  if (has_original) {
    text += fmt::format(
        ", {} of them and {} other tensors compared with the "
        "original",
        linted.compared, linted.compared_others);
  }
  if (linted.not_nearest > 0) {
    text += fmt::format(
        ", {} of them checked less strictly because they are not rounded to "
        "nearest (for example: GPTQ rounded them, repair fitted their scales, "
        "or they are a fine-tune that differs by 2 to 5 %)",
        linted.not_nearest);
  }
  if (linted.share < 1) {
    text += fmt::format(", in about {:.2g} % of their rows",
                        std::max(0.01, 100 * linted.share));
  }
  return text;
}

// Suggested commands, the most certain first. Each begins with the rules that
// it is for, and ends with the command, so that a user can copy everything up
// to the end of the line.
std::vector<std::string> NextSteps(const CheckOptions& check,
                                   const Linted& linted) {
  std::map<Remedy, std::vector<std::string_view>> rules;
  for (const auto& f : linted.findings) {
    const auto* rule = checkpoint::FindLintRule(f.rule);
    if (rule == nullptr) continue;
    auto& list = rules[f.kind == checkpoint::kAbsent        ? Remedy::kFetch
                       : f.kind == checkpoint::kReciprocals ? Remedy::kRepair
                                                            : rule->remedy];
    if (std::ranges::find(list, rule->id) == list.end()) {
      list.push_back(rule->id);
    }
  }
  std::vector<std::string> steps;
  const auto add = [&](Remedy remedy, const std::string& what) {
    if (rules[remedy].empty()) return;
    steps.push_back(
        fmt::format("{}: {}", fmt::join(rules[remedy], ", "), what));
  };
  const bool has_original = !check.original.empty();
  const bool swapped = !linted.findings.empty() &&
                       linted.findings.front().kind == checkpoint::kSwapped;
  add(Remedy::kName,
      swapped ? fmt::format("quantctl lint {} --original {}", check.original,
                            check.model)
              : fmt::format("lint the quantized model: quantctl lint QUANTIZED "
                            "--original {}",
                            has_original ? check.original : check.model));
  add(Remedy::kFetch,
      "download the files again; if they are unchanged, the published model or "
      "its original has the fault");
  add(Remedy::kRepair,
      fmt::format(
          "{}quantctl repair {} {}{}",
          has_original
              ? ""
              : "add --original MODEL, if you have it, and repair finds more: ",
          check.model, checkpoint::Beside(check.model, "-repaired"),
          has_original ? " --original " + check.original : ""));
  const std::string convert = fmt::format(
      "quantctl convert {} {}{}{}", has_original ? check.original : "ORIGINAL",
      checkpoint::Beside(check.model, "-converted"),
      linted.made_as.empty() ? "" : " ", linted.made_as);
  add(Remedy::kMeasure,
      "measure these scales again by running the model. For scales of the KV "
      "cache, use the library that wrote them. For input scales, write FILE "
      "with python -m quantd calibrate, then convert the original: " +
          convert + " --input-amax FILE");
  add(Remedy::kConvert,
      (rules[Remedy::kRepair].empty()
           ? "convert the original again: "
           : "for faults that repair leaves, convert the original again: ") +
          convert);
  return steps;
}

Json JsonOf(const checkpoint::Finding& f) {
  const auto* rule = checkpoint::FindLintRule(f.rule);
  return {{"rule", f.rule},
          {"what", rule ? rule->what : ""},
          {"thread", rule ? rule->thread : ""},
          {"where", f.where},
          {"text", f.text},
          {"count", f.count}};
}

int TellLint(const Options& options, const CheckOptions& check,
             const Linted& linted) {
  const bool has_original = !check.original.empty();
  const int code = linted.findings.empty() ? kOk : kFindings;
  const auto steps = NextSteps(check, linted);
  if (options.json) {
    Json json = {{"command", "lint"},
                 {"model", check.model},
                 {"weights", linted.weights},
                 {"rows_looked_at", linted.share}};
    if (has_original) {
      json["original"] = check.original;
      json["compared"] = {{"weights", linted.compared},
                          {"others", linted.compared_others},
                          {"not_to_nearest", linted.not_nearest}};
    }
    json["findings"] = Json::array();
    for (const auto& f : linted.findings) json["findings"].push_back(JsonOf(f));
    json["notes"] = linted.notes;
    json["next"] = steps;
    json["exit_code"] = code;
    PrintJson(json);
    return code;
  }
  for (const auto& f : linted.findings) {
    const auto* rule = checkpoint::FindLintRule(f.rule);
    fmt::print("{}: {}\n  {} ({})\n", Painted(stdout, Colour::kYellow, f.rule),
               TextOf(f), rule ? rule->what : "", rule ? rule->thread : "");
  }
  for (const std::string& note : linted.notes) fmt::print("note: {}\n", note);
  const std::string looked = LookedAt(linted, has_original);
  if (linted.findings.empty()) {
    fmt::print("{}: no faults found in {}{}\n", check.model, looked,
               has_original ? "" : "; lint finds more with --original MODEL");
  } else {
    fmt::print("{}: {} finding{} in {}\n", check.model, linted.findings.size(),
               linted.findings.size() == 1 ? "" : "s", looked);
  }
  for (const std::string& step : steps) {
    fmt::print("{} {}\n", Painted(stdout, Colour::kBold, "next:"), step);
  }
  return code;
}

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

int RunLint(const Options& options, const CheckOptions& check) {
  if (const auto own = OpenOwn(check.model)) {
    return LintOwn(options, check.model, *own);
  }
  const auto model = OpenModel(check.model);
  if (!model.ok()) {
    const auto unopened = checkpoint::LintUnopened(check.model, model.status());
    return unopened ? TellLint(options, check, *unopened)
                    : Fail(options, kBadInput, model.status());
  }
  absl::StatusOr<Model> original = Model();
  if (!check.original.empty()) original = OpenModel(check.original);
  if (!original.ok()) return Fail(options, kBadInput, original.status());
  const auto linted =
      Lint(*model, check.original.empty() ? nullptr : &*original);
  if (!linted.ok()) return Fail(options, kBadInput, linted.status());
  return TellLint(options, check, *linted);
}

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
