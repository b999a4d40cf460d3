// Writes report.html and report.json, which compare two models.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_MODEL_REPORT_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_MODEL_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/model.h"

namespace quantd::quantctl {

// Creates the directory if needed and checks that files can be written to it,
// so that errors show before hours of work.
absl::Status PrepareReport(const std::string& directory);

// Writes the report on model `b`, whose original is `a`. `notes` are added to
// its warnings.
absl::Status WriteReport(const std::string& directory,
                         const checkpoint::Model& a, const checkpoint::Model& b,
                         checkpoint::ModelDifference difference,
                         const std::vector<std::string>& notes);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_MODEL_REPORT_H_
