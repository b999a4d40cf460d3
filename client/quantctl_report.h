// What quantctl prints: tables for people, JSON for programs, a progress bar
// on a terminal.
#ifndef QUANTD_CLIENT_QUANTCTL_REPORT_H_
#define QUANTD_CLIENT_QUANTCTL_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/client.h"

namespace quantd::quantctl {

// One copy of a tensor, or one of the maxima of `amax`.
struct CopyRow {
  std::string name;  // "rowwise"
  // One, several (groups, lines), or none for a format without.
  std::vector<float> amax;
  // NaN: nothing to compare; infinity: equal.
  std::optional<double> sqnr_db = std::nullopt;
  std::optional<double> sqnr_db_without_rht = std::nullopt;
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
  bool saw_nan = false;
  bool saw_inf = false;
  absl::Status error;  // then most of the above is empty
};

struct Skipped {
  std::string name;
  std::string reason;
};

struct Report {
  std::string command;
  std::string server;
  std::string input;
  std::string output;
  std::vector<Record> tensors;
  std::vector<Skipped> skipped;
  std::vector<std::string> notes;
};

// To stdout. The keys of the JSON are stable; numbers that are not finite are
// null there.
void PrintTable(const Report& report);
void PrintJson(const Report& report, int exit_code);
void PrintInfo(const std::string& server, const ServerInfo& info, bool json);
// {"error": {...}, "exit_code": n}
void PrintJsonError(const absl::Status& status, int exit_code);

// Columns as wide as their widest cell.
void PrintColumns(const std::vector<std::vector<std::string>>& rows);

std::string ShapeText(const std::vector<int64_t>& shape);
std::string BytesText(uint64_t bytes);  // "1.50 MiB"

// A bar on stderr while it is a terminal, nothing otherwise.
class Progress {
 public:
  explicit Progress(size_t total);
  ~Progress();
  void Show(size_t done, std::string_view name);

 private:
  const size_t total_;
  const bool active_;
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_REPORT_H_
