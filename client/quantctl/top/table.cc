#include "client/quantctl/top/table.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kColumns = 80;

// Three digits, and more only before the point.
std::string Digits(double value) {
  return fmt::format("{:.{}f}", value,
                     value < 9.995   ? 2
                     : value < 99.95 ? 1
                                     : 0);
}

std::string Line(const std::vector<std::string>& cells) {
  return fmt::format(
      "{:<18.18} {:>6} {:>5} {:>6} {:>6} {:>5} {:>5} {:>6} "
      "{:>9} {:>5}",
      cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6],
      cells[7], cells[8], cells[9]);
}

// Of 10^9 bytes, in nine columns.
std::string Memory(double resident, double bound) {
  const auto text = [](double bytes) {
    const double value = std::min(bytes / 1e9, 999.0);
    return fmt::format("{:.{}f}", value, value < 9.95 ? 1 : 0);
  };
  return text(resident) + '/' + text(bound) + 'G';
}

size_t Healthy(const Reading& reading) {
  return std::count_if(reading.devices.begin(), reading.devices.end(),
                       [](const auto& d) { return d.second == "healthy"; });
}

std::string Devices(const Reading& reading) {
  if (!reading.serving) return "DRAIN";
  return fmt::format("{}/{}", Healthy(reading), reading.devices.size());
}

std::string Text(std::string_view text) {
  std::string clean(text.substr(0, kColumns));
  for (char& c : clean) {
    if (c < ' ' || c > '~') c = '?';
  }
  return clean;
}

std::string RowOf(const ServerRow& row) {
  const Activity activity = row.activity.value_or(Activity());
  const Reading& now = row.now;
  return Line({row.address, ShortNumber(activity.calls_per_second),
               Digits(std::min(activity.bytes_per_second / 1e9, 9999.0)),
               ShortDuration(activity.Quantile(0.5)),
               ShortDuration(activity.Quantile(0.99)),
               ShortNumber(now.in_flight), ShortNumber(now.waiting),
               ShortNumber(activity.refused_per_second),
               Memory(now.resident_bytes, now.bound_bytes), Devices(now)});
}

// The sum of all, as a server of its own.
ServerRow Total(const std::vector<ServerRow>& rows) {
  ServerRow total{"all", absl::OkStatus(), {}, Activity()};
  for (const ServerRow& row : rows) {
    if (!row.error.ok()) continue;
    const Activity activity = row.activity.value_or(Activity());
    total.activity->calls_per_second += activity.calls_per_second;
    total.activity->bytes_per_second += activity.bytes_per_second;
    total.activity->refused_per_second += activity.refused_per_second;
    total.activity->failed_per_second += activity.failed_per_second;
    for (const auto& [bound, count] : activity.durations) {
      total.activity->durations[bound] += count;
    }
    total.now.in_flight += row.now.in_flight;
    total.now.waiting += row.now.waiting;
    total.now.resident_bytes += row.now.resident_bytes;
    total.now.bound_bytes += row.now.bound_bytes;
    total.now.serving |= row.now.serving;
    for (const auto& [name, state] : row.now.devices) {
      total.now.devices[row.address + " " + name] = state;
    }
  }
  return total;
}

Json JsonOf(const ServerRow& row) {
  Json json = {{"address", row.address}};
  if (!row.error.ok()) {
    json["error"] = std::string(row.error.message());
    return json;
  }
  const Activity activity = row.activity.value_or(Activity());
  const auto milliseconds = [&](double q) {
    const double seconds = activity.Quantile(q);
    return seconds < 0 ? Json(nullptr) : Json(seconds * 1e3);
  };
  json["version"] = row.now.version;
  json["serving"] = row.now.serving;
  json["calls_per_second"] = activity.calls_per_second;
  json["bytes_per_second"] = activity.bytes_per_second;
  json["refused_per_second"] = activity.refused_per_second;
  json["failed_per_second"] = activity.failed_per_second;
  json["p50_ms"] = milliseconds(0.5);
  json["p99_ms"] = milliseconds(0.99);
  json["in_flight"] = row.now.in_flight;
  json["waiting"] = row.now.waiting;
  json["resident_bytes"] = row.now.resident_bytes;
  json["memory_bound_bytes"] = row.now.bound_bytes;
  json["devices"] = Json::object();
  for (const auto& [name, state] : row.now.devices) {
    json["devices"][name] = state;
  }
  return json;
}

}  // namespace

std::string ShortNumber(double value) {
  constexpr std::string_view kUnits = " kMGTPE";
  size_t unit = 0;
  while (value >= 9999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0 && value == std::floor(value)) return fmt::format("{}", value);
  const std::string digits = Digits(value);
  return unit == 0 ? digits : digits + kUnits[unit];
}

std::string ShortDuration(double seconds) {
  if (seconds < 0) return "-";
  if (seconds < 0.9995e-3) return fmt::format("{:.0f}us", seconds * 1e6);
  if (seconds < 0.9995) return Digits(seconds * 1e3) + "ms";
  return Digits(seconds) + "s";
}

std::vector<std::string> TopTable(const std::vector<ServerRow>& rows) {
  std::vector<std::string> lines = {
      Line({"SERVER", "CALL/S", "GB/S", "P50", "P99", "RUN", "WAIT", "REFU/S",
            "MEM/BOUND", "DEV"})};
  std::vector<std::string> troubles;
  for (const ServerRow& row : rows) {
    if (!row.error.ok()) {
      lines.push_back(fmt::format("{:<18.18} {}", Text(row.address),
                                  Text(std::string(row.error.message()))));
      continue;
    }
    lines.push_back(RowOf(row));
    for (const auto& [name, state] : row.now.devices) {
      if (state == "healthy") continue;
      troubles.push_back(fmt::format("{} of {} is {}", Text(name),
                                     Text(row.address), Text(state)));
    }
    if (row.activity && row.activity->failed_per_second > 0) {
      troubles.push_back(
          fmt::format("{} fails {} calls/s", Text(row.address),
                      ShortNumber(row.activity->failed_per_second)));
    }
  }
  if (rows.size() > 1) lines.push_back(RowOf(Total(rows)));
  lines.insert(lines.end(), troubles.begin(), troubles.end());
  for (std::string& line : lines) {
    if (line.size() > kColumns) line.resize(kColumns);
  }
  return lines;
}

std::string TopJson(const std::vector<ServerRow>& rows) {
  Json json = {{"command", "top"}, {"servers", Json::array()}};
  for (const ServerRow& row : rows) json["servers"].push_back(JsonOf(row));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace quantd::quantctl
