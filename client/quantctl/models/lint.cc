// Implements `quantctl lint`.
#include "client/checkpoint/lint/lint.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/checkpoint/model.h"
#include "client/checkpoint/repair/passes.h"
#include "client/quantctl/models/models.h"
#include "client/quantctl/models/own_file.h"
#include "client/quantctl/terminal/terminal.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::quantctl {
namespace {

using checkpoint::Linted;
using checkpoint::Model;
using checkpoint::Remedy;

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
    if (std::find(list.begin(), list.end(), rule->id) == list.end()) {
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

}  // namespace quantd::quantctl
