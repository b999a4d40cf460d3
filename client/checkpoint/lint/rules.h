// The rules of lint, one function for each subject. Each adds to `findings`,
// and passes errors to Findings::Fail.
#ifndef QUANTD_CLIENT_CHECKPOINT_LINT_RULES_H_
#define QUANTD_CLIENT_CHECKPOINT_LINT_RULES_H_

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/anatomy/storage.h"
#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/declared.h"
#include "client/checkpoint/check/reading.h"
#include "client/checkpoint/lint/finding.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"
#include "client/checkpoint/weight_values.h"
#include "client/files/safetensors.h"
#include "fmt/format.h"

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
  // Modules in `proven`, and plain tensors, that are all zeros.
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

// A rule, and the kind that distinguishes its findings.
struct RuleAndKind {
  RuleAndKind(const char* id) : rule(id) {}  // NOLINT: converts implicitly
  RuleAndKind(std::string_view id, std::string_view of) : rule(id), kind(of) {}
  std::string_view rule;
  std::string_view kind;
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
  // Adds a finding whose text is formatted like fmt::format does.
  template <typename... Args>
  void Find(const RuleAndKind& of, const std::string& where,
            fmt::format_string<Args...> text, Args&&... args) {
    findings_.Add(of.rule, where,
                  fmt::format(text, std::forward<Args>(args)...), of.kind);
  }
  // Returns an empty value instead of an error, which Lint then returns.
  template <typename T>
  T ValueOf(absl::StatusOr<T> made) {
    if (made.ok()) return *std::move(made);
    findings_.Fail(made.status());
    return T();
  }
  bool Succeeds(const absl::Status& status) {
    findings_.Fail(status);
    return status.ok();
  }
  std::vector<float> NumbersOf(const ModelTensor& t) {
    return ValueOf(ReadNumbers(model_, t));
  }
  template <typename Predicate>
  bool AnyTensor(Predicate is) const {
    return std::ranges::any_of(model_.tensors(), is);
  }
  // Whether a group declares all linear layers quantized except those in the
  // list.
  bool TakesLinear() const {
    return std::ranges::any_of(declared_.groups(), [](const DeclaredGroup& g) {
      return g.all_linear;
    });
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
  return IsPlainType(t.stored.dtype);
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
// the model. The second form compares all files beside the weights with the
// original's. It adds differences that may be intended to `notes`.
void LintCompanions(const LintedModel& linted, Findings* findings);
void LintCompanionsAgainst(const Model& original, const Model& model,
                           Findings* findings, std::vector<std::string>* notes);
// Whether the model has an adapter that transformers applies automatically.
bool HasAdapter(const Model& model);
// Checks that the names of tensors are those of the model's type.
void LintNames(const LintedModel& linted, Findings* findings);
// Checks the values of scales, and that fused weights have the same scales.
void LintScales(const LintedModel& linted, Findings* findings);
// Checks input scales and scales of the KV cache.
void LintInputs(const LintedModel& linted, Findings* findings);
// Finds unexpected tensors of quantized weights, and checks ComfyUI's labels.
void LintParts(const LintedModel& linted, Findings* findings);
// Checks the values of weights, quantized or not.
void LintValues(const LintedModel& linted, Findings* findings);
// Checks that all tensors exist and have the shapes that config.json implies.
void LintModules(const LintedModel& linted, Findings* findings);
// Checks that there is an output head and that config.json ties it correctly.
void LintHead(const LintedModel& linted, Findings* findings);
// Whether a model with this config.json must store the head of its original. It
// need not if the head is tied to the embeddings or equals them.
absl::StatusOr<bool> IsHeadNeeded(const Model& original, const Json& config,
                                  std::string_view type,
                                  const RowSample& sample);
// Checks config.json and hf_quant_config.json by themselves.
void LintConfig(const LintedModel& linted, Findings* findings);
// Checks that these two files describe the tensors.
void LintSchemes(const LintedModel& linted, Findings* findings);
// Checks the lists of modules in these two files.
void LintLists(const LintedModel& linted, Findings* findings);
// Checks that engines support the model as described.
void LintEngines(const LintedModel& linted, Findings* findings);
// Compares the model with its original and finds the byte order of each weight.
ComparedWeights LintAgainst(const Model& original, const LintedModel& linted,
                            Findings* findings);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_LINT_RULES_H_
