// Prints the results of quantctl, as tables for people or as JSON for programs.
#ifndef QUANTD_CLIENT_QUANTCTL_REPORT_H_
#define QUANTD_CLIENT_QUANTCTL_REPORT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/files/shown_name.h"
#include "quantd/client.h"

namespace quantd::quantctl {

// A row about one copy of a tensor, or one amax of the command `amax`.
struct CopyRow {
  std::string name;  // "rowwise"
  // One value, several (for groups or rows), or none if the format has no amax.
  std::vector<float> amax;
  // Infinity if the copy equals the tensor, NaN if there is nothing to compare.
  std::optional<double> sqnr_db = std::nullopt;
  std::optional<double> sqnr_db_without_rht = std::nullopt;
  // The SQNR with the computed amax, set if the amax was estimated or given.
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
  std::set<Transport> transports;  // transports of the tensor's calls
  bool saw_nan = false;
  int64_t replaced_globals = 0;
  bool saw_inf = false;
  absl::Status error;  // if not OK, most other members are not set
};

struct Skipped {
  std::string name;
  std::string kind;  // plural noun for the summary: "scalars"
  std::string reason;
};

// The kind of skipped tensors that the options exclude.
inline constexpr char kNotAllowed[] = "that the options do not allow";

// The names of the transports: "shared", or "shared and unix".
std::string TransportsText(const std::set<Transport>& transports);

// Measures the time since its construction.
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
  bool resizes = true;  // false for amax, which outputs no tensors
  Timer timer;          // time since the command started
  double seconds = 0;   // duration of the command, set by Finish
};

// Sums over all tensors that did not fail.
struct Totals {
  size_t tensors = 0;
  size_t failed = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  // Over the copies with a finite SQNR.
  std::optional<double> mean_sqnr_db = std::nullopt;
  std::optional<double> least_sqnr_db = std::nullopt;
  std::string least_sqnr_name;
};
Totals TotalsOf(const Report& report);

// "skipped 64 of 70 tensors: 60 vectors, 4 scalars (--verbose names them)", or
// a line for each if `verbose`. "" if none was skipped. `all` is the number of
// all tensors, skipped ones included.
std::string SkippedText(const std::vector<Skipped>& skipped, size_t all,
                        bool verbose);

// Prints a JSON object. Numbers that are not finite become null.
using Json = nlohmann::ordered_json;
void PrintJson(const Json& json);
// Prints the report to stdout. The keys of the JSON form are stable, and
// numbers that are not finite are null.
void PrintTable(const Report& report, bool verbose);
void PrintJson(const Report& report, int exit_code);
// Prints {"error": {...}, "exit_code": n}.
void PrintJsonError(const absl::Status& status, int exit_code);

// Prints a table whose first row is the head. Each column is as wide as its
// widest cell. Columns that are empty below the head are left out.
void PrintColumns(const std::vector<std::vector<std::string>>& rows);

std::string SizesText(const std::vector<int64_t>& shape);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_REPORT_H_
