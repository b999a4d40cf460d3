// report.html and report.json of two models.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_MODEL_REPORT_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_MODEL_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/model.h"

namespace quantd::quantctl {

// Makes the directory if it is not there and sees whether files can be written
// into it: before the work of hours, not after it.
absl::Status PrepareReport(const std::string& directory);

// `notes`: what else is worth a word in it.
absl::Status WriteReport(const std::string& directory,
                         const checkpoint::Model& a, const checkpoint::Model& b,
                         checkpoint::ModelDifference difference,
                         const std::vector<std::string>& notes);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_MODEL_REPORT_H_
