// Files that `quantctl quantize` wrote, as the commands on models look at them:
// their names and layout are no dialect's.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_OWN_FILE_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_OWN_FILE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/checkpoint/check/compare.h"
#include "client/files/quantized_file.h"
#include "client/quantctl/commands.h"

namespace quantd::quantctl {

// nullopt for everything else.
std::optional<QuantizedFile> OpenOwn(const std::string& path);

int InspectOwn(const Options& options, const std::string& path,
               const QuantizedFile& file);
int LintOwn(const Options& options, const std::string& path,
            const QuantizedFile& file);
// Decodes what is quantized here, without a server. One of the two is such a
// file, the other one may be any file of tensors.
absl::StatusOr<checkpoint::ModelDifference> CompareOwn(const std::string& a,
                                                       const std::string& b);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_OWN_FILE_H_
