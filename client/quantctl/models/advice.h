// `quantctl convert --format auto`: formats chosen automatically.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_ADVICE_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_ADVICE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/checkpoint/advise/advise.h"
#include "client/quantctl/models/models.h"

namespace quantd::quantctl {

// Prints a table, or a JSON event.
void PrintAdvice(const Options& options, const checkpoint::Advice& advice);

// Rules are lines of "PATTERN=FORMAT"; # begins a comment.
absl::StatusOr<std::vector<std::string>> ReadRules(const std::string& path);
absl::Status WriteRules(const std::string& path, const ConvertOptions& convert,
                        const checkpoint::Advice& advice);
// The default path of the rules for an output directory.
std::string RulesPathFor(const ConvertOptions& convert);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_ADVICE_H_
