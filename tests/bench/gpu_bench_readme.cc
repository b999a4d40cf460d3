#include "tests/bench/gpu_bench_readme.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace quantd::bench {
namespace {

using Json = nlohmann::json;

constexpr char kStart[] = "<!-- GPU numbers: generated -->\n";
constexpr char kEnd[] = "<!-- end of GPU numbers -->\n";
constexpr const char* kShapes[] = {"16384x16384", "2048x4096"};

const Json* Find(const Json& rows, const std::string& name,
                 const std::string& shape) {
  for (const Json& row : rows) {
    if (row.at("name") == name && row.at("shape") == shape &&
        row.at("dtype") == "bf16") {
      return &row;
    }
  }
  return nullptr;
}

// Time, TB/s and the share of the ceiling; of a variant, that of its base's
// speed, too.
std::string Cells(const Json* row) {
  if (row == nullptr) return " | | |";
  const double us = row->at("us");
  std::string share =
      fmt::format("{:.2f} of {}", row->at("ratio").get<double>(),
                  row->at("ceiling").get<std::string>());
  if (row->contains("time_ratio")) {
    share += fmt::format(", {:.2f} of {}", row->at("time_ratio").get<double>(),
                         row->at("of").get<std::string>());
  }
  return fmt::format(" {:.{}f} | {:.2f} | {} |", us, us < 100 ? 1 : 0,
                     row->at("tbps").get<double>(), share);
}

std::string Tables(const Json& json) {
  const Json& rows = json.at("rows");
  std::string text = fmt::format(
      "\n{}, commit {}, {}: bf16; us, TB/s and their share of the ceiling.\n\n"
      "| row |",
      json.at("device").get<std::string>(),
      json.at("commit").get<std::string>(),
      json.at("date").get<std::string>().substr(0, 10));
  std::string rule = "| --- |";
  for (const char* shape : kShapes) {
    text += fmt::format(" {}: us | TB/s | share |", shape);
    rule += " ---: | ---: | --- |";
  }
  text += "\n" + rule + "\n";
  std::vector<std::string> done;
  for (const Json& any : rows) {
    const std::string name = any.at("name");
    if (std::find(done.begin(), done.end(), name) != done.end()) continue;
    done.push_back(name);
    text += fmt::format("| `{}` |", name);
    for (const char* shape : kShapes) text += Cells(Find(rows, name, shape));
    text += "\n";
  }
  return text + "\n";
}

}  // namespace

std::string UpdateReadme(const std::string& readme, const std::string& json) {
  std::ifstream in(readme);
  std::string text((std::istreambuf_iterator<char>(in)),
                   std::istreambuf_iterator<char>());
  const size_t start = text.find(kStart);
  const size_t end = text.find(kEnd);
  if (start == std::string::npos || end == std::string::npos || end < start) {
    return readme + " has no section to write";
  }
  std::ifstream results(json);
  const Json parsed = Json::parse(results, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object() || parsed.value("benchmark", "") != "gpu_bench") {
    return "no results of gpu_bench: " + json;
  }
  const size_t from = start + sizeof kStart - 1;
  try {
    text.replace(from, end - from, Tables(parsed));
  } catch (const Json::exception& e) {
    return json + ": " + e.what();
  }
  std::ofstream out(readme, std::ios::trunc);
  out << text;
  return out.flush() ? "" : "cannot write " + readme;
}

}  // namespace quantd::bench
