#include "client/checkpoint/check/lint.h"

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/guess.h"
#include "client/checkpoint/check/rules.h"
#include "client/checkpoint/stored.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

constexpr LintRule kRules[] = {
    {"fused-scales",
     "weights that engines fuse have global scales of their own, of which "
     "engines take one for all",
     "vllm#54974"},
    {"fused-in-part",
     "of weights that engines fuse some are quantized and some are not",
     "vllm#56095"},
    {"bad-scale", "a scale is zero, negative, NaN or infinite", "vllm#45212"},
    {"no-input-scale",
     "labelled as quantizing activations with scales from the file, which has "
     "none",
     "vllm#45320"},
    {"divisor",
     "a global scale is a multiplier where the dialect has a divisor, or the "
     "other way round",
     "modular#6600"},
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
    {"stacked-experts", "experts in one tensor were left unquantized",
     "Model-Optimizer#1173"},
    {"config", "the configuration lacks what engines raise on",
     "Model-Optimizer#2011"},
    {"ignore-list",
     "the configuration and the tensors do not agree on what is quantized",
     "compressed-tensors#672"},
    {"nibble-order", "the halves of bytes are in the order of another dialect",
     "sglang#23625"},
    {"not-the-original", "the weights are not those of the original model",
     "ComfyUI#11822"},
};

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

absl::StatusOr<std::vector<Finding>> Lint(const Model& model,
                                          const Model* original) {
  const auto stored = FindStored(model);
  if (!stored.ok()) return stored.status();
  const auto architecture = Architecture::Of(model, {});
  if (!architecture.ok()) return architecture.status();
  const LintedModel linted = {model, *stored, *architecture};
  Findings findings;
  for (const UnclearWeight& u : stored->unclear) {
    LintUnclear(model, u, &findings);
  }
  if (auto s = LintScales(linted, &findings); !s.ok()) return s;
  LintConfig(linted, &findings);
  if (original != nullptr) {
    if (auto s = LintAgainst(*original, linted, &findings); !s.ok()) return s;
  }
  return findings.Take();
}

}  // namespace quantd::checkpoint
