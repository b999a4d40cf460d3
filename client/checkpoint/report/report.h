// Report on a converted model: its sizes, and the error of every tensor with
// its cause.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_REPORT_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/check/input_scale.h"
#include "client/checkpoint/check/inventory.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/report/verdict.h"

namespace quantd::checkpoint {

// A tensor that differs from the original.
struct ChangedTensor {
  TensorDifference difference;
  double bits = 0;                   // bits of model b for each parameter
  std::optional<ScaleCodes> scales;  // scales of model b
  std::string why;                   // the cause of its difference from model a
};

// A cell of the heat map, for a module in a layer. It shows the worst tensor,
// since the module may have many experts.
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
  std::string name;    // name of the modules within their layers
  ScaleCodes codes;
};

// A group of weights of model b that engines fuse.
struct ReportGroup {
  std::vector<std::string> modules;
  std::optional<float> global;  // the scale that they share, if any
};

struct Report {
  std::string title;
  std::string a;  // path of the original
  std::string b;
  std::string version;  // version of quantctl
  std::string profile;  // the profile recorded in model b
  uint64_t bytes_a = 0;
  uint64_t bytes_b = 0;
  std::vector<Kind> kinds_a;
  std::vector<Kind> kinds_b;
  Calibration calibration;             // of model b
  DifferenceSummary summary;           // without `worst`
  std::vector<ChangedTensor> changed;  // from worst to best
  std::string verdict;                 // see VerdictText
  std::vector<std::string> heat_columns;
  std::vector<HeatRow> heat;
  std::vector<Histogram> histograms;
  std::vector<ReportGroup> groups;  // groups of two or more weights
  std::vector<std::string> warnings;
};

inline constexpr size_t kWorst = 10;

// Makes the report on model `b`, whose original is `a`. `notes` are added to
// its warnings. Reads and lints model `b`.
absl::StatusOr<Report> MakeReport(const Model& a, const Model& b,
                                  ModelDifference difference,
                                  const std::vector<std::string>& notes);

// Renders the report as an HTML page without scripts or network access.
std::string PageOf(const Report& report);
// Renders the report as JSON. Numbers that are not finite become null.
Json JsonOf(const Report& report);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_REPORT_H_
