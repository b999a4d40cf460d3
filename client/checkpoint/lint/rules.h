// The rules of lint, by what they look at. Each adds what it finds.
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

// How much was held against the original.
struct ComparedWeights {
  size_t quantized = 0;    // experts of a stack are one each
  size_t of = 0;           // that there are
  size_t others = 0;       // tensors that are not quantized
  size_t not_nearest = 0;  // quantized ones that are rounded otherwise
  // Modules that are the original's: what is odd about their numbers is so in
  // the original.
  std::set<std::string> proven;
  std::set<std::string> zeros;  // those of them that are nothing but zeros
};

// What is looked at.
struct LintedModel {
  const Model& model;
  const StoredModel& stored;
  const Architecture& architecture;
  const Declared& declared;
  Dialect dialect = Dialect::kNone;  // LikelyDialect
  const RowSample& sample;
  // Tensors that are parts of quantized weights.
  const std::set<const ModelTensor*>& parts;
  const ComparedWeights& compared;
};

// What classes of rules share: the model that is looked at, and where what is
// found goes.
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
// Whether its numbers are those that nobody quantized.
inline bool IsPlain(const ModelTensor& t) {
  const std::string& type = t.stored.dtype;
  return type == "F32" || type == "F16" || type == "BF16";
}
inline bool IsWide(const ModelTensor& t) {
  return safetensors::BitsOf(t.stored.dtype) >= 16;
}
// Whether it is the matrix of a linear layer that is not quantized.
inline bool IsPlainMatrix(const ModelTensor& t) {
  return t.stored.shape.size() == 2 && t.name().ends_with(".weight") &&
         IsWide(t);
}

// The names of tensors, and files beside those of the model.
void LintFiles(const LintedModel& linted, Findings* findings);
// Tokenizers, generation and code: whether they can be read, and are of this
// model.
void LintCompanions(const LintedModel& linted, Findings* findings);
void LintCompanionsAgainst(const Model& original, const Model& model,
                           Findings* findings);
// Whether there is one that transformers puts over the weights by itself.
bool HasAdapter(const Model& model);
// The names that the type of the model has.
void LintNames(const LintedModel& linted, Findings* findings);
// The numbers of scales, and those that fused weights share.
absl::Status LintScales(const LintedModel& linted, Findings* findings);
// Scales of activations and of the cache.
absl::Status LintInputs(const LintedModel& linted, Findings* findings);
// Tensors beside a quantized weight that no engine expects there, and labels.
absl::Status LintParts(const LintedModel& linted, Findings* findings);
// The numbers of weights, quantized and not.
absl::Status LintValues(const LintedModel& linted, Findings* findings);
// Whether all is there, in the shapes that config.json says.
void LintModules(const LintedModel& linted, Findings* findings);
// The output head: whether one is there, and is what config.json says.
absl::Status LintHead(const LintedModel& linted, Findings* findings);
// Whether a model of that config.json has to have the head that its original
// has: not if it is tied to the embeddings, or the same.
absl::StatusOr<bool> IsHeadNeeded(const Model& original, const Json& config,
                                  std::string_view type,
                                  const RowSample& sample);
// config.json and ModelOpt's own file by themselves.
void LintConfig(const LintedModel& linted, Findings* findings);
// Whether they describe the tensors.
absl::Status LintSchemes(const LintedModel& linted, Findings* findings);
// Whether they say rightly what is quantized.
void LintLists(const LintedModel& linted, Findings* findings);
// Whether engines take what is there as it is described.
void LintEngines(const LintedModel& linted, Findings* findings);
// What was quantized, and how it is read.
absl::StatusOr<ComparedWeights> LintAgainst(const Model& original,
                                            const LintedModel& linted,
                                            Findings* findings);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_LINT_RULES_H_
