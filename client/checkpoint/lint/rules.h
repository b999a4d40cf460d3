// The rules of lint, one function for each subject. Each adds to `findings`.
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

// Results of comparing with the original.
struct ComparedWeights {
  size_t quantized = 0;    // compared weights; each expert of a stack counts
  size_t of = 0;           // all quantized weights
  size_t others = 0;       // compared tensors that are not quantized
  size_t not_nearest = 0;  // weights not rounded to nearest
  // Modules that equal the original's, so that oddities of their values are not
  // faults.
  std::set<std::string> proven;
  // modules in `proven` and plain tensors that are all zeros
  std::set<std::string> zeros;
};

// The model to examine, and the facts that the rules share.
struct LintedModel {
  const Model& model;
  const StoredModel& stored;
  const Architecture& architecture;
  const Declared& declared;
  Dialect dialect = Dialect::kNone;  // result of LikelyDialect
  const RowSample& sample;
  // All tensors that are parts of quantized weights.
  const std::set<const ModelTensor*>& parts;
  const ComparedWeights& compared;
};

// Base class of rules: holds the model to examine and the list of findings.
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
  // Whether the tensor is a part of a quantized weight.
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

// Whether the name is that of a scale.
inline bool IsScale(std::string_view name) {
  return name.ends_with("_scale") || name.ends_with("_scale_inv") ||
         name.ends_with("_scale_2");
}
// Whether the tensor's type is one for numbers that are not quantized.
inline bool IsPlain(const ModelTensor& t) {
  const std::string& type = t.stored.dtype;
  return type == "F32" || type == "F16" || type == "BF16";
}
inline bool IsWide(const ModelTensor& t) {
  return safetensors::BitsOf(t.stored.dtype) >= 16;
}
// Whether the tensor is a matrix named *.weight that is not quantized.
inline bool IsPlainMatrix(const ModelTensor& t) {
  return t.stored.shape.size() == 2 && t.name().ends_with(".weight") &&
         IsWide(t);
}

// Checks metadata, names of tensors, and files outside the index.
void LintFiles(const LintedModel& linted, Findings* findings);
// Checks that the tokenizer, generation settings and code can be read and fit
// the model. The second form finds a tokenizer that only the original has.
void LintCompanions(const LintedModel& linted, Findings* findings);
void LintCompanionsAgainst(const Model& original, const Model& model,
                           Findings* findings);
// Whether the model has an adapter that transformers applies automatically.
bool HasAdapter(const Model& model);
// Checks that the names of tensors are those of the model's type.
void LintNames(const LintedModel& linted, Findings* findings);
// Checks the values of scales, and that fused weights have the same scales.
absl::Status LintScales(const LintedModel& linted, Findings* findings);
// Checks input scales and scales of the KV cache.
absl::Status LintInputs(const LintedModel& linted, Findings* findings);
// Finds unexpected tensors of quantized weights, and checks ComfyUI's labels.
absl::Status LintParts(const LintedModel& linted, Findings* findings);
// Checks the values of weights, quantized or not.
absl::Status LintValues(const LintedModel& linted, Findings* findings);
// Checks that all tensors exist and have the shapes that config.json implies.
void LintModules(const LintedModel& linted, Findings* findings);
// Checks that there is an output head and that config.json ties it correctly.
absl::Status LintHead(const LintedModel& linted, Findings* findings);
// Whether a model with this config.json must store the head of its original. It
// need not if the head is tied to the embeddings or equals them.
absl::StatusOr<bool> IsHeadNeeded(const Model& original, const Json& config,
                                  std::string_view type,
                                  const RowSample& sample);
// Checks config.json and hf_quant_config.json by themselves.
void LintConfig(const LintedModel& linted, Findings* findings);
// Checks that these two files describe the tensors.
absl::Status LintSchemes(const LintedModel& linted, Findings* findings);
// Checks the lists of modules in these two files.
void LintLists(const LintedModel& linted, Findings* findings);
// Checks that engines support the model as described.
void LintEngines(const LintedModel& linted, Findings* findings);
// Compares the model with its original and finds the byte order of each weight.
absl::StatusOr<ComparedWeights> LintAgainst(const Model& original,
                                            const LintedModel& linted,
                                            Findings* findings);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_LINT_RULES_H_
