#include "client/checkpoint/lint/lint.h"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/guess.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/stored.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

constexpr LintRule kRules[] = {
    // Files.
    {"unreadable", "the files are damaged, or do not belong together",
     "ComfyUI#6744"},
    {"stored-twice",
     "a weight is there in two forms, of which engines take "
     "one",
     "auto-round#2386"},
    {"index", "the index leaves tensors out, which loaders that go by it miss",
     "vmlx-swift#388"},
    {"stray-file",
     "a file beside those of the index has tensors of the same names",
     "mlx-vlm#1464"},
    {"wrapped-names",
     "names have what a wrapper of training put before them, and engines look "
     "for them without",
     "pytorch#94575"},
    // Layouts.
    {"dialect",
     "parts are named as another library names them than the one that the "
     "configuration is for",
     "transformers#48372"},
    {"missing-scale", "codes without the scales that they need", "vllm#54444"},
    {"padded-scales",
     "scales are padded to whole tiles, where engines want them as they are",
     "vime#133"},
    {"swizzled-scales",
     "scales are in the order of Tensor Cores, where engines swizzle them "
     "themselves",
     "vime#133"},
    {"unclear-layout",
     "quantized, but names, types and shapes are those of no dialect",
     "modular#6699"},
    {"unknown-part",
     "a tensor beside the codes that engines leave out without a word, or "
     "raise on",
     "transformers#29421"},
    {"label",
     "comfy_quant, by which ComfyUI knows a quantized layer, is missing, "
     "damaged or wrong",
     "ComfyUI#15567"},
    {"nibble-order", "the halves of bytes are in the order of another dialect",
     "sglang#23625"},
    // Scales.
    {"fused-scales",
     "weights that engines fuse have global scales of their own, of which "
     "engines take one for all",
     "vllm#54974"},
    {"fused-in-part",
     "of weights that engines fuse some are quantized and some are not",
     "vllm#56095"},
    {"bad-scale", "a scale is zero, negative, NaN or infinite", "vllm#45212"},
    {"divisor",
     "a global scale is a multiplier where the dialect has a divisor, or the "
     "other way round",
     "modular#6600"},
    {"implausible-scale",
     "scales make weights larger or smaller than those of models are: they "
     "are reciprocals, lack a factor or were never filled in",
     "stable-diffusion.cpp#1898"},
    {"placeholder-scale",
     "all scales are one number, as if nobody had filled them in",
     "optimum-quanto#155"},
    {"unused-range",
     "scales are so much too large that codes have few numbers left",
     "vllm#34577"},
    {"no-input-scale",
     "labelled as quantizing activations with scales from the file, which has "
     "none",
     "vllm#45320"},
    {"input-scale", "scales of activations are those of no model",
     "auto-round#1390"},
    {"fused-input-scales",
     "weights that engines fuse have scales of activations of their own for "
     "the same inputs",
     "TensorRT-LLM#15762"},
    {"cache-scale",
     "scales of the KV cache are missing, or are those of no cache",
     "llm-compressor#1928"},
    // Weights.
    {"not-a-number", "a weight holds NaN or an infinity", "slime#2256"},
    {"dead-weight", "a weight, or much of it, is nothing but zeros",
     "BitNet#608"},
    {"clipped", "scales are so small that the largest weights are cut off",
     "mlx#4353"},
    {"one-sign", "no number of a weight is negative, or none is positive",
     "1bit-MONSTER#451"},
    {"missing-weight",
     "what the type of the model or its other layers have is missing, or more "
     "is there",
     "vllm#41811"},
    {"wrong-shape",
     "a tensor has another shape than the model by its config.json",
     "convert_to_quant#48"},
    {"tied-head",
     "the output head is not the embeddings that config.json ties it to",
     "vllm#51665"},
    {"stacked-experts", "experts in one tensor were left unquantized",
     "Model-Optimizer#1173"},
    // Configuration.
    {"config", "the configuration lacks what engines raise on",
     "Model-Optimizer#2011"},
    {"config-type",
     "a member of the configuration has another type than engines read",
     "llm-compressor#865"},
    {"config-mismatch",
     "the configuration describes other tensors than those in the files",
     "vllm-omni#6531"},
    {"ignore-list",
     "the configuration and the tensors do not agree on what is quantized",
     "compressed-tensors#672"},
    {"bad-pattern", "an expression in a list of modules is none",
     "llm-compressor#1428"},
    // The original.
    {"not-the-original", "the weights are not those of the original model",
     "ComfyUI#11822"},
    {"no-counterpart",
     "of the model and its original one has a weight that the other lacks, or "
     "that has another name there",
     "transformers#47410"},
    {"config-original",
     "config.json says other than the original's of what quantizing does not "
     "change",
     "MarinFold#198"},
};

// What is wrong is there, and the path is said already.
std::string WithoutPath(const std::string& path, std::string text) {
  for (const std::string& before : {path + ": ", path + "/"}) {
    if (text.starts_with(before)) text.erase(0, before.size());
  }
  return text;
}

void LintUnclear(const Model& model, const UnclearWeight& u,
                 Findings* findings) {
  const auto guess =
      GuessWeight(model, u.module, ConfiguredDialect(model.config()));
  if (!guess.ok()) {
    findings->Add(
        absl::IsNotFound(guess.status()) ? "missing-scale" : "unclear-layout",
        u.module,
        fmt::format("{}; {}", std::string(guess.status().message()), u.why));
    return;
  }
  const auto rule =
      guess->order == ScaleOrder::kPadded ? "padded-scales"
      : guess->order == ScaleOrder::kSwizzled && !guess->weight.layout->swizzled
          ? "swizzled-scales"
          : "unclear-layout";
  findings->Add(
      rule, u.module,
      fmt::format("it would be {} by {}, but {}",
                  Name(guess->weight.layout->format),
                  Name(guess->weight.layout->dialect),
                  guess->oddities.empty()
                      ? u.why
                      : fmt::format("{}", fmt::join(guess->oddities, ", "))));
}

}  // namespace

absl::Span<const LintRule> LintRules() { return kRules; }

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
  const LintedModel linted = {model,  *stored, *architecture, declared,
                              sample, parts,   compared};
  // What the original shows comes first, and is told last.
  Findings against;
  if (original != nullptr) {
    auto found = LintAgainst(*original, linted, &against);
    if (!found.ok()) return found.status();
    compared = *std::move(found);
    LintConfigAgainst(*original, linted, &against);
  }
  for (const UnclearWeight& u : stored->unclear) {
    LintUnclear(model, u, &findings);
  }
  LintFiles(linted, &findings);
  LintNames(linted, &findings);
  for (const auto rules : {LintScales, LintInputs, LintParts, LintModules,
                           LintSchemes, LintValues}) {
    if (auto s = rules(linted, &findings); !s.ok()) return s;
  }
  LintConfig(linted, &findings);
  LintLists(linted, &findings);
  out.compared = compared.quantized;
  out.compared_others = compared.others;
  out.not_nearest = compared.not_nearest;
  out.share = sample.share();
  out.findings = findings.Take();
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
