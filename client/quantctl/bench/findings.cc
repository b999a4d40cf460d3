#include "client/quantctl/bench/findings.h"

#include <algorithm>
#include <string>
#include <utility>

#include "client/quantctl/report.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, double> kQuantiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};

std::string Milliseconds(uint64_t nanoseconds) {
  return fmt::format("{:.3f}", static_cast<double>(nanoseconds) / 1e6);
}

Json EchoJson(const Cell& c) {
  const EchoRate* const best = c.best_echo();
  if (best == nullptr) return nullptr;
  Json ways = Json::array();
  for (const EchoRate& e : c.echoes) {
    ways.push_back({{"arrangement", e.text()},
                    {"piece_bytes", e.how.piece_bytes},
                    {"connections", e.how.connections},
                    {"streamed", e.how.streamed},
                    {"in_then_out", e.how.in_then_out},
                    {"input_gb_per_s", Median(e.gb_per_s)},
                    {"rounds", e.gb_per_s}});
  }
  return {{"input_gb_per_s", Median(best->gb_per_s)},
          {"arrangement", best->text()},
          {"of_echo", c.of_echo()},
          {"arrangements", std::move(ways)}};
}

}  // namespace

void PrintCells(const std::vector<Cell>& cells) {
  const bool echoes =
      std::any_of(cells.begin(), cells.end(),
                  [](const Cell& c) { return !c.echoes.empty(); });
  const bool amaxes =
      std::any_of(cells.begin(), cells.end(),
                  [](const Cell& c) { return !c.amax.empty(); });
  std::vector<std::vector<std::string>> rows = {{"size"}};
  if (amaxes) rows[0].emplace_back("amax");
  rows[0].insert(rows[0].end(), {"callers", "rate", "calls/s", "GB/s"});
  if (echoes) {
    rows[0].insert(rows[0].end(), {"echo GB/s", "of echo", "echo goes"});
  }
  for (const auto& [name, q] : kQuantiles) {
    rows[0].push_back(fmt::format("{} ms", name));
  }
  for (const char* name : {"max ms", "calls", "refused", "failed", "unsent"}) {
    rows[0].emplace_back(name);
  }
  for (const Cell& c : cells) {
    const Outcome& x = c.outcome;
    std::vector<std::string> row = {BytesText(c.bytes)};
    if (amaxes) row.push_back(c.amax);
    row.insert(row.end(),
               {fmt::to_string(c.load.callers),
                c.load.rate > 0 ? fmt::format("{:g}", c.load.rate) : "-",
                fmt::format("{:.1f}", c.calls_per_s()),
                fmt::format("{:.3f}", c.input_gb_per_s())});
    if (echoes) {
      if (const EchoRate* const best = c.best_echo()) {
        row.push_back(fmt::format("{:.3f}", Median(best->gb_per_s)));
        row.push_back(fmt::format("{:.2f}", c.of_echo()));
        row.push_back(best->text());
      } else {
        row.insert(row.end(), {"-", "-", "-"});
      }
    }
    for (const auto& [name, q] : kQuantiles) {
      row.push_back(Milliseconds(x.nanoseconds.Quantile(q)));
    }
    row.push_back(Milliseconds(x.nanoseconds.max()));
    for (const uint64_t n : {x.good, x.refused, x.failed, x.unsent}) {
      row.push_back(fmt::to_string(n));
    }
    rows.push_back(std::move(row));
  }
  PrintColumns(rows);
}

Json JsonOf(const std::vector<Cell>& cells) {
  Json all = Json::array();
  for (const Cell& c : cells) {
    const Outcome& x = c.outcome;
    Json latency;
    for (const auto& [name, q] : kQuantiles) {
      latency[name] = x.nanoseconds.Quantile(q);
    }
    latency["max"] = x.nanoseconds.max();
    all.push_back(
        {{"bytes", c.bytes},
         {"reply_bytes", c.reply_bytes},
         {"amax", c.amax.empty() ? Json(nullptr) : Json(c.amax)},
         {"callers", c.load.callers},
         {"rate", c.load.rate > 0 ? Json(c.load.rate) : Json(nullptr)},
         {"seconds", x.seconds},
         {"calls", x.good},
         {"refused", x.refused},
         {"failed", x.failed},
         {"unsent", x.unsent},
         {"calls_per_s", c.calls_per_s()},
         {"input_gb_per_s", c.input_gb_per_s()},
         {"rounds", c.gb_per_s},
         {"latency_ns", std::move(latency)},
         {"echo", EchoJson(c)}});
  }
  return all;
}

}  // namespace quantd::quantctl
