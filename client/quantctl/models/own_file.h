// Files written by `quantctl quantize`, for the commands on models: their names
// and layout are no dialect's.
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
// Compares two files, decoding quantized tensors in this process. At least one
// was written by `quantctl quantize`; the other may be any file of tensors.
absl::StatusOr<checkpoint::ModelDifference> CompareOwn(const std::string& a,
                                                       const std::string& b);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_OWN_FILE_H_
