#include "client/checkpoint/lint/lint.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/config_difference.h"
#include "client/checkpoint/check/guess.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/stored.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

constexpr LintRule kRules[] = {
    {kNothing, "the model has no quantized weights to examine",
     "deepcompressor#27", Remedy::kName},
    // Files.
    {"unreadable", "the files are damaged, or do not belong together",
     "ComfyUI#6744", Remedy::kFetch},
    {"stored-twice",
     "a weight is stored in two forms, and engines use one of them",
     "auto-round#2386", Remedy::kFetch},
    {"index", "the index omits tensors, so that loaders do not find them",
     "vmlx-swift#388", Remedy::kRepair},
    {"stray-file",
     "a file outside the index has tensors with the names of the model's "
     "tensors",
     "mlx-vlm#1464", Remedy::kRepair},
    {"file-format",
     "the metadata of a file names no library that transformers knows, so that "
     "transformers fails",
     "mlx#743", Remedy::kRepair},
    {"wrapped-names",
     "names have a prefix that a training wrapper added, or lack a prefix that "
     "engines expect",
     "pytorch#94575", Remedy::kRepair},
    {"companion-file",
     "a file that engines read beside the weights is damaged, missing or not "
     "the original's",
     "auto-round#725", Remedy::kFetch},
    {"tokenizer",
     "a token id is beyond the embeddings: engines read out of bounds, or "
     "generation never stops",
     "transformers#12763", Remedy::kFetch},
    // Layouts.
    {"dialect",
     "parts have the names of another library than the one that the "
     "configuration names",
     "transformers#48372", Remedy::kRepair},
    {"missing-scale", "the weight has codes, but lacks a scale", "vllm#54444",
     Remedy::kConvert},
    {"padded-scales",
     "scales are padded to whole tiles, but engines expect them without "
     "padding",
     "vime#133", Remedy::kRepair},
    {"swizzled-scales",
     "scales are swizzled, but engines swizzle them themselves; or scales are "
     "stored row by row, but engines expect them swizzled",
     "vime#133", Remedy::kRepair},
    {"unclear-layout",
     "the weight is quantized, but its names, types and shapes fit no dialect",
     "modular#6699", Remedy::kRepair},
    {"unknown-format",
     "lint does not know the format and did not examine the weight; engines "
     "that do not know it ignore the weight, fail, or read its codes as plain "
     "numbers",
     "sglang#35032", Remedy::kFetch},
    {"unknown-part",
     "engines silently ignore an additional tensor of the weight, or fail on "
     "it",
     "transformers#29421", Remedy::kConvert},
    {"label",
     "comfy_quant or _quantization_metadata, by which ComfyUI recognizes a "
     "quantized layer, is missing, damaged or wrong",
     "ComfyUI#15567", Remedy::kRepair},
    {"nibble-order",
     "the 4-bit halves of bytes are in the order of another dialect",
     "sglang#23625", Remedy::kRepair},
    // Scales.
    {"fused-scales",
     "weights that engines fuse have different global scales, but engines use "
     "one for all",
     "vllm#54974", Remedy::kRepair},
    {"fused-in-part",
     "weights that engines fuse, or experts of a layer, differ in format, or "
     "only some are quantized",
     "vllm#56095", Remedy::kConvert},
    {"bad-scale", "a scale is zero, negative, NaN or infinite", "vllm#45212",
     Remedy::kRepair},
    {"divisor",
     "a global scale is a multiplier where the dialect has a divisor, or vice "
     "versa",
     "modular#6600", Remedy::kRepair},
    {"implausible-scale",
     "scales imply weights that are too large or too small: they are "
     "reciprocals, lack a factor or were never filled in",
     "stable-diffusion.cpp#1898", Remedy::kConvert},
    {"placeholder-scale",
     "all scales are equal, as if they were never filled in",
     "optimum-quanto#155", Remedy::kConvert},
    {"unused-range",
     "scales are so large that only few different codes are used", "vllm#34577",
     Remedy::kConvert},
    {"no-input-scale",
     "the configuration announces input scales in the file, but they are "
     "missing",
     "vllm#45320", Remedy::kRepair},
    {"input-scale", "input scales are implausible", "auto-round#1390",
     Remedy::kMeasure},
    {"fused-input-scales",
     "weights that engines fuse have different input scales for the same "
     "inputs",
     "TensorRT-LLM#15762", Remedy::kMeasure},
    {"cache-scale",
     "scales of the KV cache are missing, implausible or not declared",
     "llm-compressor#1928", Remedy::kMeasure},
    // Weights.
    {"not-a-number", "a weight holds NaN or an infinity", "slime#2256",
     Remedy::kFetch},
    {"dead-weight", "all or many values of a weight are zeros", "BitNet#608",
     Remedy::kFetch},
    {"clipped", "scales are so small that the largest weights are clipped",
     "mlx#4353", Remedy::kConvert},
    {"one-sign", "all values of a weight have the same sign",
     "1bit-MONSTER#451", Remedy::kConvert},
    {"missing-weight",
     "a tensor is missing that models of this type or other layers have, or "
     "there is one that they do not have",
     "vllm#41811", Remedy::kFetch},
    {"wrong-shape",
     "the shape of a tensor contradicts config.json or other tensors",
     "convert_to_quant#48", Remedy::kFetch},
    {"tied-head",
     "config.json ties the output head to the embeddings, but they differ",
     "vllm#51665", Remedy::kFetch},
    {"stacked-experts",
     "experts that are stored in one tensor were not quantized",
     "Model-Optimizer#1173", Remedy::kConvert},
    // Engines.
    {"kept-plain",
     "engines do not quantize this module: they fail on its codes, or read "
     "them as plain numbers",
     "vllm#40252", Remedy::kConvert},
    {"no-target", "engines find no group for a quantized weight", "vllm#45535",
     Remedy::kConvert},
    {"list-prefix",
     "a list names modules as the files do, but transformers uses another "
     "prefix and does not find them in the list",
     "llm-compressor#3159", Remedy::kConvert},
    {"experts-scheme", "engines have no kernel for experts with this scheme",
     "llm-compressor#1393", Remedy::kConvert},
    {"fused-squares",
     "blocks of 128 x 128 would span two weights that engines fuse, so that "
     "engines refuse them",
     "vllm#17569", Remedy::kConvert},
    // Configuration.
    {"config", "the configuration lacks an entry without which engines fail",
     "Model-Optimizer#2011", Remedy::kRepair},
    {"config-type",
     "an entry of the configuration has another type than engines expect",
     "llm-compressor#865", Remedy::kRepair},
    {"config-mismatch",
     "the configuration does not fit the tensors in the files",
     "vllm-omni#6531", Remedy::kRepair},
    {"ignore-list",
     "the configuration and the tensors disagree on which modules are "
     "quantized",
     "compressed-tensors#672", Remedy::kRepair},
    {"bad-pattern", "an expression in a list of modules is invalid",
     "llm-compressor#1428", Remedy::kRepair},
    // The original.
    {"not-the-original", "the weights are not those of the original model",
     "ComfyUI#11822", Remedy::kConvert},
    {"no-counterpart",
     "either the model or its original has a weight that the other lacks or "
     "names differently",
     "transformers#47410", Remedy::kFetch},
    {"config-original",
     "config.json differs from the original's in a setting that quantizing "
     "does not change",
     "MarinFold#198", Remedy::kRepair},
};

// Removes the path from the beginning of `text`, because it is already shown.
std::string WithoutPath(const std::string& path, std::string text) {
  for (const std::string& before : {path + ": ", path + "/"}) {
    if (text.starts_with(before)) text.erase(0, before.size());
  }
  return text;
}

// Notes about models that only some engines support. They are not findings,
// because the user may have chosen such an engine.
std::vector<std::string> NotesOf(const LintedModel& linted) {
  std::vector<std::string> notes;
  for (const Role role : {Role::kMultiToken, Role::kGate, Role::kCondition}) {
    size_t count = 0;
    std::string first;
    for (const StoredWeight& w : linted.stored.weights) {
      if (linted.architecture.RoleOf(w.module) != role) continue;
      if (count++ == 0) first = w.module;
    }
    if (count == 0) continue;
    notes.push_back(fmt::format(
        "{} {} are quantized ({}{}): many engines fail on them, or read them "
        "as plain numbers",
        count, Describe(role), first, count > 1 ? " and others" : ""));
  }
  if (const auto said = RotationOf(linted.model.config()); !said.empty()) {
    notes.push_back(said +
                    ": weights are rotated, and engines that do not rotate "
                    "their inputs compute something else");
  }
  if (HasAdapter(linted.model)) {
    notes.push_back(
        "there is an adapter_config.json: transformers applies that adapter to "
        "the weights, and older versions load another model instead "
        "(transformers#43746)");
  }
  return notes;
}

// Whether the finding already explains why no weight counts as quantized.
bool TellsOfCodes(const Finding& f) {
  return f.rule == "unknown-format" || f.rule == "missing-scale" ||
         f.kind == kUnquantized;
}

std::string MadeAs(const StoredModel& stored) {
  if (stored.weights.empty()) return "";
  const WeightLayout& first = *stored.weights.front().layout;
  const bool one_format = std::ranges::all_of(
      stored.weights,
      [&](const auto& w) { return w.layout->format == first.format; });
  return fmt::format(
      "--dialect {}{}", Name(first.dialect),
      one_format ? fmt::format(" --format {}", Name(first.format)) : "");
}

void LintUnclear(const LintedModel& linted, const UnclearWeight& u,
                 Findings* findings) {
  const auto guess = GuessWeight(linted.model, u.module, linted.dialect);
  if (!guess.ok()) {
    findings->Add(
        absl::IsNotFound(guess.status()) ? "missing-scale" : "unknown-format",
        u.module,
        fmt::format("{}; {}", std::string(guess.status().message()), u.why));
    return;
  }
  findings->Add(
      RuleOfOrder(*guess, "unclear-layout"), u.module,
      fmt::format("it looks like {} by {}, but {}",
                  Name(guess->weight.layout->format),
                  Name(guess->weight.layout->dialect),
                  guess->oddities.empty()
                      ? u.why
                      : fmt::format("{}", fmt::join(guess->oddities, ", "))));
}

}  // namespace

absl::Span<const LintRule> LintRules() { return kRules; }

const LintRule* FindLintRule(std::string_view id) {
  for (const LintRule& rule : kRules) {
    if (rule.id == id) return &rule;
  }
  return nullptr;
}

absl::StatusOr<Linted> Lint(const Model& model, const Model* original) {
  Findings findings;
  Linted out;
  const auto stored = FindStored(model);
  if (!stored.ok()) {
    if (!absl::IsInvalidArgument(stored.status())) return stored.status();
    findings.Add(
        "stored-twice", model.path(),
        WithoutPath(model.path(), std::string(stored.status().message())));
    out.findings = findings.Take();
    return out;
  }
  const bool nothing = stored->weights.empty() && stored->unclear.empty();
  if (nothing && original != nullptr) {
    const auto other = FindStored(*original);
    if (other.ok() && !other->weights.empty()) {
      out.findings.push_back(
          {kNothing, model.path(),
           fmt::format("it has no quantized weights, but {1} has {0}: did you "
                       "swap the two models?",
                       other->weights.size(), original->path()),
           1, std::string(kSwapped)});
      return out;
    }
  }
  const auto architecture = Architecture::Of(model, {});
  if (!architecture.ok()) return architecture.status();
  const Declared declared(model);
  const RowSample sample(model);
  const std::set<const ModelTensor*> parts = stored->tensors();
  for (const StoredWeight& w : stored->weights) {
    out.weights += static_cast<size_t>(w.experts);
  }
  ComparedWeights compared;
  const Dialect dialect = LikelyDialect(model, *stored);
  const LintedModel linted = {model,   *stored, *architecture, declared,
                              dialect, sample,  parts,         compared};
  // The findings against the original are made first, since other rules need
  // them, but reported last.
  Findings against;
  if (original != nullptr) {
    compared = LintAgainst(*original, linted, &against);
    std::vector<std::string> usual;
    for (const ConfigDifference& d : DifferencesOf(*original, model)) {
      if (d.usual) {
        usual.push_back(d.text);
      } else {
        against.Add("config-original", kConfigFile, d.text, d.key);
      }
    }
    LintCompanionsAgainst(*original, model, &against, &usual);
    constexpr size_t kShown = 12;
    if (const size_t more = usual.size() > kShown ? usual.size() - kShown : 0;
        more > 0) {
      usual.resize(kShown);
      usual.push_back(fmt::format("and {} more", more));
    }
    if (!usual.empty()) {
      out.notes.push_back(fmt::format(
          "differences from the original that saving a model again may cause: "
          "{}",
          fmt::join(usual, "; ")));
    }
  }
  for (const UnclearWeight& u : stored->unclear) {
    LintUnclear(linted, u, &findings);
  }
  for (const auto rules :
       {LintFiles, LintCompanions, LintNames, LintModules, LintScales,
        LintInputs, LintParts, LintHead, LintSchemes, LintValues, LintConfig,
        LintLists, LintEngines}) {
    rules(linted, &findings);
  }
  for (const Findings* made : {&against, &findings}) {
    if (!made->status().ok()) return made->status();
  }
  out.compared = compared.quantized;
  out.compared_others = compared.others;
  out.not_nearest = compared.not_nearest;
  out.share = sample.share();
  for (std::string& note : NotesOf(linted)) out.notes.push_back(note);
  out.made_as = MadeAs(*stored);
  out.findings = findings.Take();
  if (nothing && std::ranges::none_of(out.findings, TellsOfCodes)) {
    out.findings.insert(out.findings.begin(),
                        {kNothing, model.path(),
                         "it has no quantized weights; is this the original?"});
  }
  for (Finding& f : against.Take()) out.findings.push_back(std::move(f));
  return out;
}

std::optional<Linted> LintUnopened(const std::string& path,
                                   const absl::Status& status) {
  if (!absl::IsInvalidArgument(status) && !absl::IsDataLoss(status)) {
    return std::nullopt;
  }
  Linted out;
  out.findings.push_back(
      {"unreadable", path, WithoutPath(path, std::string(status.message()))});
  return out;
}

}  // namespace quantd::checkpoint
