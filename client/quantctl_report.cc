#include "client/quantctl_report.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/error.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::quantctl {
namespace {

using Json = nlohmann::ordered_json;

void Put(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

Json Number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json ErrorJson(const absl::Status& status) {
  Json json = {{"code", absl::StatusCodeToString(status.code())},
               {"message", std::string(status.message())}};
  if (const auto violation = GetFieldViolation(status)) {
    json["field"] = violation->field;
    json["expected"] = violation->expected;
    json["got"] = violation->got;
  }
  if (!GetRequestId(status).empty()) json["request_id"] = GetRequestId(status);
  return json;
}

std::string SqnrText(const CopyRow& copy) {
  if (!copy.sqnr_db) return "";
  const auto text = [](double db) -> std::string {
    if (std::isnan(db)) return "all zero";
    if (std::isinf(db)) return db > 0 ? "exact" : "-inf";
    return fmt::format("{:.2f}", db);
  };
  if (!copy.sqnr_db_without_rht) return text(*copy.sqnr_db);
  return fmt::format("{} ({} without RHT)", text(*copy.sqnr_db),
                     text(*copy.sqnr_db_without_rht));
}

// One value, or the largest of several.
std::string AmaxText(const std::vector<float>& amax) {
  if (amax.empty()) return "";
  const float largest = *std::max_element(amax.begin(), amax.end());
  if (amax.size() == 1) return fmt::format("{:.6g}", largest);
  return fmt::format("{:.6g} (largest of {})", largest, amax.size());
}

// Columns of the table, empty where they were not asked for.
std::vector<std::string> StatisticsText(const CopyRow& copy) {
  if (!copy.statistics) return {"", "", ""};
  const ErrorStatistics& s = *copy.statistics;
  return {fmt::to_string(s.clipped), fmt::to_string(s.flushed),
          fmt::format("{:.4g}", s.max_error)};
}

Json StatisticsJson(const ErrorStatistics& s) {
  return {{"elements", s.elements},
          {"clipped", s.clipped},
          {"flushed", s.flushed},
          {"max_error", Number(s.max_error)},
          {"sqnr_db", Number(s.sqnr_db())}};
}

Json RecordJson(const Record& r) {
  Json json = {{"name", r.name}, {"dtype", r.dtype}, {"shape", r.shape}};
  if (!r.error.ok()) {
    json["error"] = ErrorJson(r.error);
    return json;
  }
  json["bytes_in"] = r.bytes_in;
  json["bytes_out"] = r.bytes_out;
  if (!r.copies.empty() && r.copies[0].sqnr_db) {
    json["sqnr_db"] = Number(*r.copies[0].sqnr_db);
  }
  Json copies = Json::object();
  for (const CopyRow& c : r.copies) {
    Json& copy = copies[c.name];
    if (c.amax.size() == 1) copy["amax"] = Number(c.amax[0]);
    if (c.amax.size() > 1) {
      copy["amax"] = Json::array();
      for (const float a : c.amax) copy["amax"].push_back(Number(a));
    }
    if (c.sqnr_db) copy["sqnr_db"] = Number(*c.sqnr_db);
    if (c.sqnr_db_without_rht) {
      copy["sqnr_db_without_rht"] = Number(*c.sqnr_db_without_rht);
    }
    if (c.statistics) copy["statistics"] = StatisticsJson(*c.statistics);
  }
  json["copies"] = std::move(copies);
  json["seconds"] = r.seconds;
  json["device"] = r.device;
  json["request_id"] = r.request_id;
  json["saw_nan"] = r.saw_nan;
  json["saw_inf"] = r.saw_inf;
  return json;
}

}  // namespace

// Numbers could align right, but names and shapes dominate.
void PrintColumns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

std::string BytesText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  int unit = -1;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

void PrintTable(const Report& report) {
  std::vector<std::vector<std::string>> rows = {
      {"tensor", "shape", "dtype", "bytes in", "bytes out", "copy", "amax",
       "SQNR dB", "clipped", "flushed", "max error", "time"}};
  for (const Record& r : report.tensors) {
    if (!r.error.ok()) continue;
    std::vector<std::string> row = {
        r.name, ShapeText(r.shape), r.dtype,
        r.bytes_in == 0 ? "" : BytesText(r.bytes_in), BytesText(r.bytes_out)};
    for (const CopyRow& c : r.copies) {
      row.resize(5);
      row.push_back(c.name);
      row.push_back(AmaxText(c.amax));
      row.push_back(SqnrText(c));
      for (std::string& text : StatisticsText(c)) row.push_back(text);
      row.push_back(
          &c == &r.copies[0] ? fmt::format("{:.1f} ms", r.seconds * 1e3) : "");
      rows.push_back(row);
      row.assign(5, "");
    }
    if (r.copies.empty()) {
      row.resize(rows[0].size() - 1);
      row.push_back(fmt::format("{:.1f} ms", r.seconds * 1e3));
      rows.push_back(row);
    }
  }
  // A column nobody filled is left out.
  for (size_t i = rows[0].size(); i-- > 0;) {
    const bool used = std::any_of(rows.begin() + 1, rows.end(),
                                  [&](const auto& r) { return !r[i].empty(); });
    if (used) continue;
    for (auto& row : rows) row.erase(row.begin() + static_cast<ptrdiff_t>(i));
  }
  if (rows.size() > 1) PrintColumns(rows);
  for (const Record& r : report.tensors) {
    if (r.saw_nan || r.saw_inf) {
      fmt::print("note: {} holds {}\n", r.name,
                 r.saw_nan && r.saw_inf ? "NaN and Inf"
                 : r.saw_nan            ? "NaN"
                                        : "Inf");
    }
  }
  for (const std::string& note : report.notes) fmt::print("note: {}\n", note);
  for (const Skipped& s : report.skipped) {
    fmt::print("skipped: {}: {}\n", s.name, s.reason);
  }
  for (const Record& r : report.tensors) {
    if (!r.error.ok()) {
      fmt::print("failed: {}: {}\n", r.name, std::string(r.error.message()));
    }
  }
  if (!report.output.empty()) fmt::print("wrote {}\n", report.output);
}

void PrintJson(const Report& report, int exit_code) {
  Json json = {{"command", report.command},
               {"server", report.server},
               {"input", report.input}};
  json["output"] = report.output.empty() ? Json(nullptr) : Json(report.output);
  json["tensors"] = Json::array();
  for (const Record& r : report.tensors) {
    json["tensors"].push_back(RecordJson(r));
  }
  json["skipped"] = Json::array();
  for (const Skipped& s : report.skipped) {
    json["skipped"].push_back({{"name", s.name}, {"reason", s.reason}});
  }
  json["notes"] = report.notes;
  json["exit_code"] = exit_code;
  Put(json);
}

void PrintJsonError(const absl::Status& status, int exit_code) {
  Put({{"error", ErrorJson(status)}, {"exit_code", exit_code}});
}

void PrintInfo(const std::string& server, const ServerInfo& info, bool json) {
  if (json) {
    Json out = {{"command", "info"},
                {"server", server},
                {"version", info.version},
                {"limits",
                 {{"max_request_bytes", info.max_request_bytes},
                  {"memory_budget_bytes", info.memory_budget_bytes},
                  {"max_rank", info.max_rank}}}};
    out["devices"] = Json::array();
    for (const DeviceInfo& d : info.devices) {
      out["devices"].push_back(
          {{"name", d.name},
           {"kind", d.kind},
           {"description", d.description},
           {"healthy", d.healthy},
           {"memory_limit_bytes", d.memory_limit_bytes},
           {"memory_high_water_bytes", d.memory_high_water_bytes},
           {"jobs", d.jobs},
           {"rht_cache_hits", d.rht_cache_hits},
           {"rht_cache_misses", d.rht_cache_misses},
           {"rht_launches", d.rht_launches}});
    }
    out["formats"] = Json::array();
    for (const FormatSupport& f : info.formats) {
      Json inputs = Json::array();
      for (DType t : f.inputs) inputs.push_back(Name(t));
      Json usages = Json::array();
      for (Usage u : f.usages) usages.push_back(Name(u));
      out["formats"].push_back({{"name", f.name},
                                {"device_kinds", f.device_kinds},
                                {"inputs", inputs},
                                {"usages", usages},
                                {"rht_dimensions", f.rht_dimensions},
                                {"options", f.options}});
    }
    out["exit_code"] = 0;
    Put(out);
    return;
  }
  fmt::print("quantd {} at {}\n", info.version, server);
  fmt::print("limits: {} a request, {} of payload memory, {} dimensions\n",
             BytesText(info.max_request_bytes),
             BytesText(info.memory_budget_bytes), info.max_rank);
  std::vector<std::vector<std::string>> rows = {
      {"device", "kind", "state", "jobs", "memory high", "memory limit",
       "description"}};
  for (const DeviceInfo& d : info.devices) {
    rows.push_back({d.name, d.kind, d.healthy ? "healthy" : "quarantined",
                    fmt::to_string(d.jobs),
                    BytesText(d.memory_high_water_bytes),
                    BytesText(d.memory_limit_bytes), d.description});
  }
  PrintColumns(rows);
  for (const FormatSupport& f : info.formats) {
    std::vector<std::string_view> inputs;
    for (DType t : f.inputs) inputs.push_back(Name(t));
    std::vector<std::string_view> usages;
    for (Usage u : f.usages) usages.push_back(Name(u));
    fmt::print("format {}: from {}; {}; on {}\n", f.name,
               fmt::join(inputs, ", "), fmt::join(usages, ", "),
               fmt::join(f.device_kinds, ", "));
    if (!f.rht_dimensions.empty()) {
      fmt::print("  RHT dimension {}\n", fmt::join(f.rht_dimensions, ", "));
    }
    if (!f.options.empty()) {
      fmt::print("  {}\n", fmt::join(f.options, ", "));
    }
  }
}

Progress::Progress(size_t total)
    : total_(total), active_(total > 0 && isatty(STDERR_FILENO) == 1) {}

void Progress::Show(size_t done, std::string_view name) {
  if (!active_) return;
  constexpr size_t kWidth = 24;
  const size_t full = done * kWidth / total_;
  fmt::print(stderr, "\r\x1b[K[{}{}] {}/{} {}", std::string(full, '#'),
             std::string(kWidth - full, '.'), done, total_, name.substr(0, 40));
  std::fflush(stderr);
}

Progress::~Progress() {
  if (active_) fmt::print(stderr, "\r\x1b[K");
}

}  // namespace quantd::quantctl
