// Report on a converted model, for people: sizes, and how far every tensor is
// from the original, where and why.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_REPORT_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/inventory.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/report/scale_codes.h"

namespace quantd::checkpoint {

// A tensor that differs from the original.
struct ChangedTensor {
  TensorDifference difference;
  double bits = 0;                   // of model b, for each parameter
  std::optional<ScaleCodes> scales;  // of model b
  std::string why;                   // the cause of its distance from model a
};

// A layer and a module: the worst of the tensors there, since there may be many
// experts.
struct HeatCell {
  double sqnr_db = 0;
  double usual_db = 0;  // see UsualDb
  bool below = false;   // see IsBelow
  size_t tensors = 0;
  std::string worst;
};
struct HeatRow {
  std::string layer;
  std::vector<std::optional<HeatCell>> cells;  // parallel to heat_columns
};

struct Histogram {
  std::string format;  // "nvfp4 by modelopt"
  std::string name;    // of the modules in their layers
  ScaleCodes codes;
};

// Weights of model b that engines fuse.
struct ReportGroup {
  std::vector<std::string> modules;
  std::optional<float> global;  // the scale that they share, if they do
};

struct Report {
  std::string title;
  std::string a;  // paths of the models
  std::string b;
  std::string version;  // of this program
  std::string profile;  // profile that model b records
  uint64_t bytes_a = 0;
  uint64_t bytes_b = 0;
  std::vector<Kind> kinds_a;
  std::vector<Kind> kinds_b;
  size_t equal = 0;
  std::vector<ChangedTensor> changed;  // from worst to best
  double mean_db = 0;
  double usual_db = 0;  // mean of UsualDb over the same tensors
  size_t below = 0;     // how many of those are IsBelow
  std::string verdict;  // see VerdictText
  std::vector<std::string> heat_columns;
  std::vector<HeatRow> heat;
  std::vector<Histogram> histograms;
  std::vector<ReportGroup> groups;  // of two or more
  std::vector<std::string> warnings;
};

inline constexpr size_t kWorst = 10;

// `notes` are further remarks for the report. Reads both models.
absl::StatusOr<Report> MakeReport(const Model& a, const Model& b,
                                  ModelDifference difference,
                                  const std::vector<std::string>& notes);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_REPORT_H_
