// Implements `quantctl convert --format auto`: prints the chosen formats, and
// reads and writes rules.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_ADVICE_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_ADVICE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/checkpoint/advise/advise.h"
#include "client/quantctl/models/models.h"

namespace quantd::quantctl {

// Prints the formats of each group of weights as a table, or as a JSON event.
void PrintAdvice(const Options& options, const checkpoint::Advice& advice);

// Reads a file of rules. Each line is "PATTERN=FORMAT", or a comment after '#'.
absl::StatusOr<std::vector<std::string>> ReadRules(const std::string& path);
absl::Status WriteRules(const std::string& path, const ConvertOptions& convert,
                        const checkpoint::Advice& advice);
// The path to which rules are written: --write-rules, or beside the output.
std::string RulesPathFor(const ConvertOptions& convert);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_ADVICE_H_
