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
    {kNothing, "there is nothing to look at", "deepcompressor#27",
     Remedy::kName},
    // Files.
    {"unreadable", "the files are damaged, or do not belong together",
     "ComfyUI#6744", Remedy::kFetch},
    {"stored-twice",
     "a weight is there in two forms, of which engines take "
     "one",
     "auto-round#2386", Remedy::kFetch},
    {"index", "the index leaves tensors out, which loaders that go by it miss",
     "vmlx-swift#388", Remedy::kRepair},
    {"stray-file",
     "a file beside those of the index has tensors of the same names",
     "mlx-vlm#1464", Remedy::kRepair},
    {"file-format",
     "the metadata of a file says that it is of no library that transformers "
     "knows, which raises",
     "mlx#743", Remedy::kRepair},
    {"wrapped-names",
     "names have what a wrapper of training put before them, or lack what "
     "engines look for there",
     "pytorch#94575", Remedy::kRepair},
    {"companion-file",
     "a file that engines read beside the weights is damaged or missing",
     "auto-round#725", Remedy::kFetch},
    {"tokenizer",
     "a number of a word is beyond the embeddings, where engines read what is "
     "not there, or never stop",
     "transformers#12763", Remedy::kFetch},
    // Layouts.
    {"dialect",
     "parts are named as another library names them than the one that the "
     "configuration is for",
     "transformers#48372", Remedy::kRepair},
    {"missing-scale", "codes without the scales that they need", "vllm#54444",
     Remedy::kConvert},
    {"padded-scales",
     "scales are padded to whole tiles, where engines want them as they are",
     "vime#133", Remedy::kRepair},
    {"swizzled-scales",
     "scales are in the order of Tensor Cores where engines swizzle them "
     "themselves, or lie row by row where engines take them as they are",
     "vime#133", Remedy::kRepair},
    {"unclear-layout",
     "quantized, but names, types and shapes are those of no dialect",
     "modular#6699", Remedy::kRepair},
    {"unknown-format",
     "a weight in a format that nothing here knows, and that engines leave "
     "out, "
     "raise on or take for numbers",
     "sglang#35032", Remedy::kFetch},
    {"unknown-part",
     "a tensor beside the codes that engines leave out without a word, or "
     "raise on",
     "transformers#29421", Remedy::kConvert},
    {"label",
     "comfy_quant or _quantization_metadata, by which ComfyUI knows a "
     "quantized layer, is missing, damaged or wrong",
     "ComfyUI#15567", Remedy::kRepair},
    {"nibble-order", "the halves of bytes are in the order of another dialect",
     "sglang#23625", Remedy::kRepair},
    // Scales.
    {"fused-scales",
     "weights that engines fuse have global scales of their own, of which "
     "engines take one for all",
     "vllm#54974", Remedy::kRepair},
    {"fused-in-part",
     "of weights that engines fuse, or of the experts of a layer, some are "
     "quantized and some are not",
     "vllm#56095", Remedy::kConvert},
    {"bad-scale", "a scale is zero, negative, NaN or infinite", "vllm#45212",
     Remedy::kRepair},
    {"divisor",
     "a global scale is a multiplier where the dialect has a divisor, or the "
     "other way round",
     "modular#6600", Remedy::kRepair},
    {"implausible-scale",
     "scales make weights larger or smaller than those of models are: they "
     "are reciprocals, lack a factor or were never filled in",
     "stable-diffusion.cpp#1898", Remedy::kConvert},
    {"placeholder-scale",
     "all scales are one number, as if nobody had filled them in",
     "optimum-quanto#155", Remedy::kConvert},
    {"unused-range",
     "scales are so much too large that codes have few numbers left",
     "vllm#34577", Remedy::kConvert},
    {"no-input-scale",
     "labelled as quantizing activations with scales from the file, which has "
     "none",
     "vllm#45320", Remedy::kRepair},
    {"input-scale", "scales of activations are those of no model",
     "auto-round#1390", Remedy::kMeasure},
    {"fused-input-scales",
     "weights that engines fuse have scales of activations of their own for "
     "the same inputs",
     "TensorRT-LLM#15762", Remedy::kMeasure},
    {"cache-scale",
     "scales of the KV cache are missing, or are those of no cache",
     "llm-compressor#1928", Remedy::kMeasure},
    // Weights.
    {"not-a-number", "a weight holds NaN or an infinity", "slime#2256",
     Remedy::kFetch},
    {"dead-weight", "a weight, or much of it, is nothing but zeros",
     "BitNet#608", Remedy::kFetch},
    {"clipped", "scales are so small that the largest weights are cut off",
     "mlx#4353", Remedy::kConvert},
    {"one-sign", "no number of a weight is negative, or none is positive",
     "1bit-MONSTER#451", Remedy::kConvert},
    {"missing-weight",
     "what the type of the model or its other layers have is missing, or more "
     "is there",
     "vllm#41811", Remedy::kFetch},
    {"wrong-shape",
     "a tensor has another shape than the model by its config.json",
     "convert_to_quant#48", Remedy::kFetch},
    {"tied-head",
     "the output head is not the embeddings that config.json ties it to",
     "vllm#51665", Remedy::kFetch},
    {"stacked-experts", "experts in one tensor were left unquantized",
     "Model-Optimizer#1173", Remedy::kConvert},
    // Engines.
    {"kept-plain",
     "engines keep it as it is, and raise on its codes or take them for "
     "numbers",
     "vllm#40252", Remedy::kConvert},
    {"no-target", "engines find no group for a quantized weight", "vllm#45535",
     Remedy::kConvert},
    {"list-prefix",
     "modules are named as in the files, and transformers gives them another "
     "prefix, under which they are on no list",
     "llm-compressor#3159", Remedy::kConvert},
    {"experts-scheme", "engines have no kernel for experts of that scheme",
     "llm-compressor#1393", Remedy::kConvert},
    {"fused-squares",
     "squares of 128 x 128 would reach over weights that engines fuse, and "
     "they refuse that",
     "vllm#17569", Remedy::kConvert},
    // Configuration.
    {"config", "the configuration lacks what engines raise on",
     "Model-Optimizer#2011", Remedy::kRepair},
    {"config-type",
     "a member of the configuration has another type than engines read",
     "llm-compressor#865", Remedy::kRepair},
    {"config-mismatch",
     "the configuration describes other tensors than those in the files",
     "vllm-omni#6531", Remedy::kRepair},
    {"ignore-list",
     "the configuration and the tensors do not agree on what is quantized",
     "compressed-tensors#672", Remedy::kRepair},
    {"bad-pattern", "an expression in a list of modules is none",
     "llm-compressor#1428", Remedy::kRepair},
    // The original.
    {"not-the-original", "the weights are not those of the original model",
     "ComfyUI#11822", Remedy::kConvert},
    {"no-counterpart",
     "of the model and its original one has a weight that the other lacks, or "
     "that has another name there",
     "transformers#47410", Remedy::kFetch},
    {"config-original",
     "config.json says other than the original's of what quantizing does not "
     "change",
     "MarinFold#198", Remedy::kRepair},
};

// The text says what is wrong; the path is already shown.
std::string WithoutPath(const std::string& path, std::string text) {
  for (const std::string& before : {path + ": ", path + "/"}) {
    if (text.starts_with(before)) text.erase(0, before.size());
  }
  return text;
}

// Reports formats that few engines take, which a user who knows the engine may
// still choose.
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
        "{} {} are quantized ({}{}), which many engines raise on, or read as "
        "if they were not",
        count, Describe(role), first, count > 1 ? " and others" : ""));
  }
  if (HasAdapter(linted.model)) {
    notes.push_back(
        "adapter_config.json is there: transformers puts that adapter over the "
        "weights, and older ones load another model in their place "
        "(transformers#43746)");
  }
  return notes;
}

// Findings that already explain why no weight counts as quantized.
bool TellsOfCodes(const Finding& f) {
  return f.rule == "unknown-format" || f.rule == "missing-scale" ||
         f.kind == kUnquantized;
}

std::string MadeAs(const StoredModel& stored) {
  if (stored.weights.empty()) return "";
  const WeightLayout& first = *stored.weights.front().layout;
  const bool one_format = std::all_of(
      stored.weights.begin(), stored.weights.end(),
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
      fmt::format("it would be {} by {}, but {}",
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
           fmt::format(
               "no quantized weight, and {} of {}: are the two swapped?",
               other->weights.size(), original->path()),
           1, std::string(kSwapped)});
      return out;
    }
  }
  const auto architecture = Architecture::Of(model, {});
  if (!architecture.ok()) return architecture.status();
  const Declared declared(model);
  const RowSample sample(model);
  std::set<const ModelTensor*> parts;
  for (const StoredWeight& w : stored->weights) {
    parts.insert(w.parts.begin(), w.parts.end());
    out.weights += static_cast<size_t>(w.experts);
  }
  ComparedWeights compared;
  const Dialect dialect = LikelyDialect(model, *stored);
  const LintedModel linted = {model,   *stored, *architecture, declared,
                              dialect, sample,  parts,         compared};
  // The original is examined first and reported last.
  Findings against;
  if (original != nullptr) {
    auto found = LintAgainst(*original, linted, &against);
    if (!found.ok()) return found.status();
    compared = *std::move(found);
    for (const ConfigDifference& d : DifferencesOf(*original, model)) {
      against.Add("config-original", kConfigFile, d.text, d.key);
    }
    LintCompanionsAgainst(*original, model, &against);
  }
  for (const UnclearWeight& u : stored->unclear) {
    LintUnclear(linted, u, &findings);
  }
  LintFiles(linted, &findings);
  LintCompanions(linted, &findings);
  LintNames(linted, &findings);
  LintModules(linted, &findings);
  for (const auto rules :
       {LintScales, LintInputs, LintParts, LintHead, LintSchemes, LintValues}) {
    if (auto s = rules(linted, &findings); !s.ok()) return s;
  }
  LintConfig(linted, &findings);
  LintLists(linted, &findings);
  LintEngines(linted, &findings);
  out.compared = compared.quantized;
  out.compared_others = compared.others;
  out.not_nearest = compared.not_nearest;
  out.share = sample.share();
  out.notes = NotesOf(linted);
  out.made_as = MadeAs(*stored);
  out.findings = findings.Take();
  if (nothing &&
      std::none_of(out.findings.begin(), out.findings.end(), TellsOfCodes)) {
    out.findings.insert(
        out.findings.begin(),
        {kNothing, model.path(), "no quantized weight; is this the original?"});
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
