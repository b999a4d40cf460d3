// The rules of lint, by what they look at. Each adds what it finds.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_RULES_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_RULES_H_

#include "absl/status/status.h"
#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/finding.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// What is looked at.
struct LintedModel {
  const Model& model;
  const StoredModel& stored;
  const Architecture& architecture;
};

// The numbers of scales, and those that fused weights share.
absl::Status LintScales(const LintedModel& linted, Findings* findings);
// config.json, ModelOpt's own file, and whether they agree with the tensors.
void LintConfig(const LintedModel& linted, Findings* findings);
// What was quantized, and how it is read.
absl::Status LintAgainst(const Model& original, const LintedModel& linted,
                         Findings* findings);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_RULES_H_
