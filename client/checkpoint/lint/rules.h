// Rules of lint, by what they examine. Each adds its findings.
#ifndef QUANTD_CLIENT_CHECKPOINT_LINT_RULES_H_
#define QUANTD_CLIENT_CHECKPOINT_LINT_RULES_H_

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/declared.h"
#include "client/checkpoint/check/row_sample.h"
#include "client/checkpoint/lint/finding.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"
#include "client/files/safetensors.h"

namespace quantd::checkpoint {

// How much was compared with the original.
struct ComparedWeights {
  size_t quantized = 0;    // each expert of a stack counts
  size_t of = 0;           // number of quantized weights
  size_t others = 0;       // tensors that are not quantized
  size_t not_nearest = 0;  // quantized ones not rounded to the nearest
  // Modules found equal to the original's: oddities of their numbers come from
  // it.
  std::set<std::string> proven;
  std::set<std::string> zeros;  // those of them that are all zeros
};

// The model under examination, and what is known about it.
struct LintedModel {
  const Model& model;
  const StoredModel& stored;
  const Architecture& architecture;
  const Declared& declared;
  Dialect dialect = Dialect::kNone;  // result of LikelyDialect
  const RowSample& sample;
  // Tensors that are parts of quantized weights.
  const std::set<const ModelTensor*>& parts;
  const ComparedWeights& compared;
};

// Base of rules: the model under examination, and where findings go.
class Rules {
 public:
  Rules(const LintedModel& linted, Findings* findings)
      : linted_(linted),
        model_(linted.model),
        stored_(linted.stored),
        architecture_(linted.architecture),
        declared_(linted.declared),
        findings_(*findings) {}

 protected:
  void Find(std::string_view rule, const std::string& where,
            const std::string& text, std::string_view kind = "") {
    findings_.Add(rule, where, text, kind);
  }
  template <typename Predicate>
  bool AnyTensor(Predicate is) const {
    return std::any_of(model_.tensors().begin(), model_.tensors().end(), is);
  }
  // Whether a tensor belongs to a quantized weight.
  bool IsPart(const ModelTensor& t) const {
    return linted_.parts.count(&t) > 0;
  }

  const LintedModel& linted_;
  const Model& model_;
  const StoredModel& stored_;
  const Architecture& architecture_;
  const Declared& declared_;

 private:
  Findings& findings_;
};

// Whether a tensor has the name of a scale.
inline bool IsScale(std::string_view name) {
  return name.ends_with("_scale") || name.ends_with("_scale_inv") ||
         name.ends_with("_scale_2");
}
// Whether a tensor has a type for numbers that are not quantized.
inline bool IsPlain(const ModelTensor& t) {
  const std::string& type = t.stored.dtype;
  return type == "F32" || type == "F16" || type == "BF16";
}
inline bool IsWide(const ModelTensor& t) {
  return safetensors::BitsOf(t.stored.dtype) >= 16;
}
// Whether a tensor is the matrix of a linear layer that is not quantized.
inline bool IsPlainMatrix(const ModelTensor& t) {
  return t.stored.shape.size() == 2 && t.name().ends_with(".weight") &&
         IsWide(t);
}

// Checks the names of tensors, and files beside those of the model.
void LintFiles(const LintedModel& linted, Findings* findings);
// Check whether tokenizer, generation settings and code are readable and belong
// to this model.
void LintCompanions(const LintedModel& linted, Findings* findings);
void LintCompanionsAgainst(const Model& original, const Model& model,
                           Findings* findings);
// Whether there is an adapter that transformers applies automatically.
bool HasAdapter(const Model& model);
// Checks that names are those of the model's type.
void LintNames(const LintedModel& linted, Findings* findings);
// Checks the numbers of scales, and those that fused weights share.
absl::Status LintScales(const LintedModel& linted, Findings* findings);
// Checks scales of activations and of the cache.
absl::Status LintInputs(const LintedModel& linted, Findings* findings);
// Checks for unexpected tensors beside a quantized weight, and ComfyUI's
// labels.
absl::Status LintParts(const LintedModel& linted, Findings* findings);
// Checks the numbers of weights, quantized or not.
absl::Status LintValues(const LintedModel& linted, Findings* findings);
// Checks that all tensors are there, in the shapes that config.json implies.
void LintModules(const LintedModel& linted, Findings* findings);
// Checks that there is an output head, and that it agrees with config.json.
absl::Status LintHead(const LintedModel& linted, Findings* findings);
// Whether a model with that config.json needs the head that its original has:
// not if it is tied to the embeddings or equal to them.
absl::StatusOr<bool> IsHeadNeeded(const Model& original, const Json& config,
                                  std::string_view type,
                                  const RowSample& sample);
// Checks config.json and ModelOpt's own file by themselves.
void LintConfig(const LintedModel& linted, Findings* findings);
// Checks that they describe the tensors.
absl::Status LintSchemes(const LintedModel& linted, Findings* findings);
// Checks that their lists of quantized modules are right.
void LintLists(const LintedModel& linted, Findings* findings);
// Checks that engines support the model as it is described.
void LintEngines(const LintedModel& linted, Findings* findings);
// Compares the model with its original, and finds how each weight must be read.
absl::StatusOr<ComparedWeights> LintAgainst(const Model& original,
                                            const LintedModel& linted,
                                            Findings* findings);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_LINT_RULES_H_
