// Output of quantctl: tables for people, JSON for programs.
#ifndef QUANTD_CLIENT_QUANTCTL_REPORT_H_
#define QUANTD_CLIENT_QUANTCTL_REPORT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "quantd/client.h"

namespace quantd::quantctl {

// One copy of a tensor, or one maximum of `amax`.
struct CopyRow {
  std::string name;  // "rowwise"
  // One value, several (groups, lines), or none if the format has no amax.
  std::vector<float> amax;
  // NaN: nothing to compare; infinity: equal.
  std::optional<double> sqnr_db = std::nullopt;
  std::optional<double> sqnr_db_without_rht = std::nullopt;
  // With the rotation and its computed amax, if the amax was estimated or
  // given.
  std::optional<double> sqnr_db_computed_amax = std::nullopt;
  std::optional<ErrorStatistics> statistics = std::nullopt;
};

struct Record {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  size_t bytes_in = 0;
  size_t bytes_out = 0;
  std::vector<CopyRow> copies;
  double seconds = 0;
  std::string device;
  std::string request_id;
  std::set<Transport> transports;  // of its calls
  bool saw_nan = false;
  int64_t replaced_globals = 0;
  bool saw_inf = false;
  absl::Status error;  // if set, most of the above is empty
};

struct Skipped {
  std::string name;
  std::string kind;  // plural of its kind: "scalars"
  std::string reason;
};

// The kind of tensors that the options exclude.
inline constexpr char kNotAllowed[] = "that the options do not allow";

// "shared", or "shared and unix".
std::string TransportsText(const std::set<Transport>& transports);

// Stopwatch.
class Timer {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

struct Report {
  std::string command;
  std::string server;
  std::string input;
  std::string output;
  std::vector<Record> tensors;
  std::vector<Skipped> skipped;
  std::vector<std::string> notes;
  bool resizes = true;  // the output is the tensors in another form
  Timer timer;          // of the whole command
  double seconds = 0;   // set by Finish
};

// Sums over all tensors that did not fail.
struct Totals {
  size_t tensors = 0;
  size_t failed = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  // Over the copies whose ratio is known and finite.
  std::optional<double> mean_sqnr_db = std::nullopt;
  std::optional<double> least_sqnr_db = std::nullopt;
  std::string least_sqnr_name;
};
Totals TotalsOf(const Report& report);

// "skipped 64 of 70 tensors: 60 vectors, 4 scalars (--verbose names them)", or
// a line for each; empty if none was skipped. `all` counts skipped tensors and
// others.
std::string SkippedText(const std::vector<Skipped>& skipped, size_t all,
                        bool verbose);

// Print to stdout. JSON keys are stable; numbers that are not finite are null.
void PrintTable(const Report& report, bool verbose);
void PrintJson(const Report& report, int exit_code);
// {"error": {...}, "exit_code": n}
void PrintJsonError(const absl::Status& status, int exit_code);

// Prints columns as wide as their widest cell, below a head. Columns without a
// filled cell are left out.
void PrintColumns(const std::vector<std::vector<std::string>>& rows);

std::string SizesText(const std::vector<int64_t>& shape);
std::string BytesText(uint64_t bytes);  // "1.50 MiB"

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_REPORT_H_
