#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "client/checkpoint/model.h"
#include "client/files/file.h"
#include "client/quantctl/models/models.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

using checkpoint::AdvisedGroup;
using checkpoint::Candidate;
using checkpoint::WeightFormat;

std::string NameOf(const AdvisedGroup& g) {
  return g.modules.size() == 1
             ? g.modules.front()
             : fmt::format("{} and {} more", g.modules.front(),
                           g.modules.size() - 1);
}

std::string DbOf(const AdvisedGroup& g, WeightFormat format) {
  for (const Candidate& c : g.candidates) {
    if (c.format != format) continue;
    return std::isfinite(c.sqnr_db) ? fmt::format("{:.2f}", c.sqnr_db)
                                    : "exact";
  }
  return "-";
}

void PrintEvent(const checkpoint::Advice& advice) {
  Json groups = Json::array();
  for (const AdvisedGroup& g : advice.groups) {
    Json candidates = Json::object();
    for (const Candidate& c : g.candidates) {
      candidates[std::string(Name(c.format))] = {{"bytes", c.bytes},
                                                 {"sqnr_db", c.sqnr_db}};
    }
    groups.push_back({{"modules", g.modules},
                      {"candidates", std::move(candidates)},
                      {"chosen", Name(g.candidates[g.chosen].format)}});
  }
  Event({{"event", "advice"},
         {"groups", std::move(groups)},
         {"bytes_in", advice.bytes_in},
         {"bytes_out", advice.bytes_out}});
}

}  // namespace

void PrintAdvice(const Options& options, const checkpoint::Advice& advice) {
  if (options.json) return PrintEvent(advice);
  std::vector<std::vector<std::string>> rows = {{"weights, SQNR dB"}};
  for (const WeightFormat format : checkpoint::kCandidates) {
    rows[0].emplace_back(Name(format));
  }
  rows[0].insert(rows[0].end(), {"chosen", "bytes"});
  std::map<std::string_view, size_t> counts;
  for (const AdvisedGroup& g : advice.groups) {
    std::vector<std::string> row = {NameOf(g)};
    for (const WeightFormat format : checkpoint::kCandidates)
      row.push_back(DbOf(g, format));
    const Candidate& chosen = g.candidates[g.chosen];
    row.emplace_back(Name(chosen.format));
    row.push_back(BytesText(chosen.bytes));
    rows.push_back(std::move(row));
    counts[Name(chosen.format)] += g.modules.size();
  }
  PrintColumns(rows);
  std::string text;
  for (const auto& [format, count] : counts) {
    text += fmt::format("{}{} weight{} in {}", text.empty() ? "" : ", ", count,
                        count == 1 ? "" : "s", format);
  }
  fmt::print("chosen: {}; {} become {} ({:.3g} of the input)\n", text,
             BytesText(advice.bytes_in), BytesText(advice.bytes_out),
             Ratio(advice.bytes_out, advice.bytes_in));
}

absl::StatusOr<std::vector<std::string>> ReadRules(const std::string& path) {
  const auto text =
      checkpoint::ReadText(InputFile::Open(path), checkpoint::kMaxConfigBytes);
  if (!text.ok()) return text.status();
  std::vector<std::string> rules;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    line = line.substr(0, line.find('#'));
    while (!line.empty() &&
           std::isspace(static_cast<unsigned char>(line.back()))) {
      line.remove_suffix(1);
    }
    if (!line.empty()) rules.emplace_back(line);
  }
  return rules;
}

absl::Status WriteRules(const std::string& path, const ConvertOptions& convert,
                        const checkpoint::Advice& advice) {
  std::string text = fmt::format(
      "# {} at --target {}: {} bytes become {} bytes.\n"
      "# quantctl convert {} OUT --dialect {} --format nvfp4 --rules {}\n",
      convert.in, convert.target, advice.bytes_in, advice.bytes_out, convert.in,
      Name(convert.selection.dialect), path);
  for (const std::string& rule : advice.rules) text += rule + "\n";
  return WriteTextFile(path, text);
}

std::string RulesPathFor(const ConvertOptions& convert) {
  if (!convert.write_rules.empty()) return convert.write_rules;
  std::string path = convert.out;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path + ".rules";
}

}  // namespace quantd::quantctl
