#include "client/quantctl/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/quantctl/terminal/terminal.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "quantd/error.h"

namespace quantd::quantctl {
namespace {

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
  std::vector<std::string> without;
  if (copy.sqnr_db_computed_amax) {
    without.push_back(fmt::format("{} with the computed amax",
                                  text(*copy.sqnr_db_computed_amax)));
  }
  if (copy.sqnr_db_without_rht) {
    without.push_back(
        fmt::format("{} without RHT", text(*copy.sqnr_db_without_rht)));
  }
  if (without.empty()) return text(*copy.sqnr_db);
  return fmt::format("{} ({})", text(*copy.sqnr_db), fmt::join(without, ", "));
}

// The text of an amax: one value, or the largest of several.
std::string AmaxText(const std::vector<float>& amax) {
  if (amax.empty()) return "";
  const float largest = *std::ranges::max_element(amax);
  if (amax.size() == 1) return fmt::format("{:.6g}", largest);
  return fmt::format("{:.6g} (largest of {})", largest, amax.size());
}

// The columns of the statistics, empty if not requested.
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
          {"max_error", s.max_error},
          {"sqnr_db", s.sqnr_db()}};
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
    json["sqnr_db"] = *r.copies[0].sqnr_db;
  }
  Json copies = Json::object();
  for (const CopyRow& c : r.copies) {
    Json& copy = copies[c.name];
    if (c.amax.size() == 1) copy["amax"] = c.amax[0];
    if (c.amax.size() > 1) copy["amax"] = c.amax;
    if (c.sqnr_db) copy["sqnr_db"] = *c.sqnr_db;
    if (c.sqnr_db_without_rht) {
      copy["sqnr_db_without_rht"] = *c.sqnr_db_without_rht;
    }
    if (c.sqnr_db_computed_amax) {
      copy["sqnr_db_computed_amax"] = *c.sqnr_db_computed_amax;
    }
    if (c.statistics) copy["statistics"] = StatisticsJson(*c.statistics);
  }
  json["copies"] = std::move(copies);
  json["seconds"] = r.seconds;
  json["device"] = r.device;
  json["transport"] = TransportsText(r.transports);
  json["request_id"] = r.request_id;
  json["saw_nan"] = r.saw_nan;
  json["saw_inf"] = r.saw_inf;
  if (r.replaced_globals > 0) json["replaced_globals"] = r.replaced_globals;
  return json;
}

std::string TotalsText(const Report& report, const Totals& t) {
  std::string text =
      fmt::format("total: {} tensor{}", t.tensors, t.tensors == 1 ? "" : "s");
  if (t.failed > 0) text += fmt::format(" ({} failed)", t.failed);
  if (t.bytes_in > 0) text += fmt::format(", {} in", BytesText(t.bytes_in));
  if (report.resizes) {
    text += fmt::format(", {} out", BytesText(t.bytes_out));
    if (t.bytes_in > 0 && t.bytes_out > 0) {
      text += fmt::format(
          " ({:.3g} of the input)",
          static_cast<double>(t.bytes_out) / static_cast<double>(t.bytes_in));
    }
  }
  text += fmt::format(", {:.2f} s", report.seconds);
  if (const uint64_t moved = std::max(t.bytes_in, t.bytes_out);
      report.seconds > 0) {
    text += fmt::format(
        ", {}/s", BytesText(static_cast<uint64_t>(
                      static_cast<double>(t.bytes_in > 0 ? t.bytes_in : moved) /
                      report.seconds)));
  }
  if (t.mean_sqnr_db) {
    text += fmt::format(", SQNR {:.2f} dB on average, {:.2f} dB at least ({})",
                        *t.mean_sqnr_db, *t.least_sqnr_db, t.least_sqnr_name);
  }
  return text;
}

Json TotalsJson(const Report& report, const Totals& t) {
  const auto ratio = [](double a, double b) {
    return b > 0 ? Json(a / b) : Json(nullptr);
  };
  const auto known = [](const std::optional<double>& v) {
    return v ? Json(*v) : Json(nullptr);
  };
  const auto in = static_cast<double>(t.bytes_in);
  Json json = {{"tensors", t.tensors},
               {"failed", t.failed},
               {"bytes_in", t.bytes_in},
               {"bytes_out", t.bytes_out}};
  json["ratio"] = ratio(static_cast<double>(t.bytes_out), in);
  json["seconds"] = report.seconds;
  json["bytes_in_per_second"] = ratio(in, report.seconds);
  json["mean_sqnr_db"] = known(t.mean_sqnr_db);
  json["least_sqnr_db"] = known(t.least_sqnr_db);
  return json;
}

}  // namespace

void PrintJson(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

std::string TransportsText(const std::set<Transport>& transports) {
  std::vector<std::string_view> names;
  for (const Transport t : transports) names.push_back(Name(t));
  return fmt::format("{}", fmt::join(names, " and "));
}

Totals TotalsOf(const Report& report) {
  Totals t;
  double sum = 0;
  size_t known = 0;
  for (const Record& r : report.tensors) {
    if (!r.error.ok()) {
      ++t.failed;
      continue;
    }
    ++t.tensors;
    t.bytes_in += r.bytes_in;
    t.bytes_out += r.bytes_out;
    for (const CopyRow& c : r.copies) {
      std::optional<double> sqnr = c.sqnr_db;
      if (!sqnr && c.statistics) sqnr = c.statistics->sqnr_db();
      if (!sqnr || !std::isfinite(*sqnr)) continue;
      sum += *sqnr;
      ++known;
      if (t.least_sqnr_db && *t.least_sqnr_db <= *sqnr) continue;
      t.least_sqnr_db = sqnr;
      t.least_sqnr_name = fmt::format("{}, {}", r.name, c.name);
    }
  }
  if (known > 0) t.mean_sqnr_db = sum / static_cast<double>(known);
  return t;
}

std::string SkippedText(const std::vector<Skipped>& skipped, size_t all,
                        bool verbose) {
  if (skipped.empty()) return "";
  std::string text;
  if (verbose) {
    for (const Skipped& s : skipped) {
      text += fmt::format("skipped: {}: {}\n", s.name, s.reason);
    }
    return text;
  }
  // Kinds in the order of first occurrence. A kind in `mixed` has several
  // reasons.
  std::vector<std::pair<const Skipped*, size_t>> kinds;
  std::set<std::string> mixed;
  for (const Skipped& s : skipped) {
    const auto found = std::ranges::find_if(
        kinds, [&](const auto& k) { return k.first->kind == s.kind; });
    if (found == kinds.end()) {
      kinds.emplace_back(&s, 1);
      continue;
    }
    ++found->second;
    if (found->first->reason != s.reason) mixed.insert(s.kind);
  }
  std::vector<std::string> parts;
  for (const auto& [first, count] : kinds) {
    const bool one = first->kind == kNotAllowed && !mixed.contains(first->kind);
    parts.push_back(fmt::format("{} {}{}", count, first->kind,
                                one ? " (" + first->reason + ")" : ""));
  }
  return fmt::format("skipped {} of {} tensors: {} (--verbose names them)\n",
                     skipped.size(), all, fmt::join(parts, ", "));
}

// Aligns all columns to the left, because most hold names and shapes.
void PrintColumns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    if (&row == &rows.front()) continue;
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (widths[i] == 0) continue;
      widths[i] = std::max(widths[i], rows.front()[i].size());
      line += fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", &row == &rows.front()
                           ? Painted(stdout, Colour::kBold, line)
                           : line);
  }
}

std::string SizesText(const std::vector<int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

void PrintTable(const Report& report, bool verbose) {
  std::vector<std::vector<std::string>> rows = {
      {"tensor", "shape", "dtype", "bytes in", "bytes out", "copy", "amax",
       "SQNR dB", "clipped", "flushed", "max error", "time"}};
  for (const Record& r : report.tensors) {
    if (!r.error.ok()) continue;
    std::vector<std::string> row = {
        r.name, SizesText(r.shape), r.dtype,
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
  if (rows.size() > 1) PrintColumns(rows);
  for (const Record& r : report.tensors) {
    if (r.saw_nan || r.saw_inf) {
      fmt::print("note: {} contains {}\n", r.name,
                 r.saw_nan && r.saw_inf ? "NaN and Inf"
                 : r.saw_nan            ? "NaN"
                                        : "Inf");
    }
    if (r.replaced_globals > 0) {
      fmt::print(
          "note: {} is all zeros; the profile's library writes NaN for such a "
          "tensor, but this file decodes to zeros\n",
          r.name);
    }
  }
  for (const std::string& note : report.notes) fmt::print("note: {}\n", note);
  fmt::print("{}", SkippedText(report.skipped,
                               report.skipped.size() + report.tensors.size(),
                               verbose));
  for (const Record& r : report.tensors) {
    if (!r.error.ok()) {
      fmt::print("{}: {}: {}\n", Painted(stdout, Colour::kRed, "failed"),
                 r.name, std::string(r.error.message()));
    }
  }
  const Totals totals = TotalsOf(report);
  if (totals.tensors > 0) fmt::print("{}\n", TotalsText(report, totals));
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
    json["skipped"].push_back(
        {{"name", s.name}, {"kind", s.kind}, {"reason", s.reason}});
  }
  json["totals"] = TotalsJson(report, TotalsOf(report));
  json["notes"] = report.notes;
  json["exit_code"] = exit_code;
  PrintJson(json);
}

void PrintJsonError(const absl::Status& status, int exit_code) {
  PrintJson({{"error", ErrorJson(status)}, {"exit_code", exit_code}});
}

}  // namespace quantd::quantctl
