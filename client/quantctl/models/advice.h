// `quantctl convert --format auto`: formats that are chosen.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_ADVICE_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_ADVICE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/checkpoint/advise/advise.h"
#include "client/quantctl/models/models.h"

namespace quantd::quantctl {

// A table, or an event.
void PrintAdvice(const Options& options, const checkpoint::Advice& advice);

// Lines of "PATTERN=FORMAT"; # begins a comment.
absl::StatusOr<std::vector<std::string>> ReadRules(const std::string& path);
absl::Status WriteRules(const std::string& path, const ConvertOptions& convert,
                        const checkpoint::Advice& advice);
// Where the rules for a directory go unless somebody says otherwise.
std::string RulesPathFor(const ConvertOptions& convert);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_ADVICE_H_
