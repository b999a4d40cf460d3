// Handles files of `quantctl quantize` in the commands for models. Their layout
// is not one of the dialects.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_OWN_FILE_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_OWN_FILE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/checkpoint/check/compare.h"
#include "client/files/quantized_file.h"
#include "client/quantctl/commands.h"

namespace quantd::quantctl {

// Opens a file written by `quantctl quantize`. Returns nullopt for other files.
std::optional<QuantizedFile> OpenOwn(const std::string& path);

int InspectOwn(const Options& options, const std::string& path,
               const QuantizedFile& file);
int LintOwn(const Options& options, const std::string& path,
            const QuantizedFile& file);
// Compares two files, decoding quantized tensors in this process. `quantctl
// quantize` must have written at least one of them; the other may be any file
// of tensors.
absl::StatusOr<checkpoint::ModelDifference> CompareOwn(const std::string& a,
                                                       const std::string& b);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_OWN_FILE_H_
