// Implements `quantctl info`.
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "client/quantctl/commands.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::quantctl {
namespace {

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
    PrintJson(out);
    return;
  }
  fmt::print("quantd {} at {}\n", info.version, server);
  fmt::print(
      "limits: {} for each request, {} of payload memory, {} dimensions\n",
      BytesText(info.max_request_bytes), BytesText(info.memory_budget_bytes),
      info.max_rank);
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

}  // namespace

int RunInfo(const Options& options) {
  const auto client = Connect(options);
  if (!client.ok()) return FailToConnect(options, client.status());
  const auto info = (*client)->GetServerInfo(CallOf(options));
  if (!info.ok()) return Fail(options, CodeOf(info.status()), info.status());
  PrintInfo(options.server, *info, options.json);
  return kOk;
}

}  // namespace quantd::quantctl
