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

std::string Number(const Json* row, const char* key, int digits) {
  if (row == nullptr || !row->contains(key)) return "";
  return fmt::format("{:.{}f}", row->at(key).get<double>(), digits);
}

// Microseconds to three digits.
std::string Time(const Json* row) {
  const double us = row == nullptr ? 0 : row->at("us").get<double>();
  return Number(row, "us", us < 10 ? 2 : us < 100 ? 1 : 0);
}

// The rows that are variants of others, or those that are not; each once.
std::string Table(const Json& rows, bool variants) {
  std::string text = variants ? "| variant | of |" : "| row | ceiling |";
  std::string rule = "| --- | --- |";
  for (const char* shape : kShapes) {
    text += fmt::format(" {}, us | {} | of ceiling |", shape,
                        variants ? "speed of the other" : "TB/s");
    rule += " ---: | ---: | ---: |";
  }
  text += "\n" + rule + "\n";
  std::vector<std::string> done;
  for (const Json& any : rows) {
    const std::string name = any.at("name");
    if (any.contains("of") != variants ||
        std::find(done.begin(), done.end(), name) != done.end()) {
      continue;
    }
    done.push_back(name);
    text += fmt::format("| `{}` | {} |", name,
                        any.at(variants ? "of" : "ceiling").get<std::string>());
    for (const char* shape : kShapes) {
      const Json* row = Find(rows, name, shape);
      text += fmt::format(
          " {} | {} | {} |", Time(row),
          variants ? Number(row, "time_ratio", 2) : Number(row, "tbps", 2),
          Number(row, "ratio", 2));
    }
    text += "\n";
  }
  return text;
}

std::string Section(const Json& json) {
  const Json& rows = json.at("rows");
  const Json& latency = json.at("latency");
  return fmt::format(
      "\n{}, commit {}, {}, bf16:\n\n{}\n{}\n"
      "From the first kernel's start to the last one's end, amax computed and "
      "rowwise NVFP4 made of {}:\n{} us in {} launches, {} us as a graph. A "
      "job waits for the device {}.\n\n",
      json.at("device").get<std::string>(),
      json.at("commit").get<std::string>(),
      json.at("date").get<std::string>().substr(0, 10), Table(rows, false),
      Table(rows, true), latency.at("shape").get<std::string>(), Time(&latency),
      latency.at("launches").get<int>(), Number(&latency, "graph_us", 1),
      latency.at("host_waits") == 1
          ? "once"
          : fmt::format("{} times", latency.at("host_waits").get<int>()));
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
    text.replace(from, end - from, Section(parsed));
  } catch (const Json::exception& e) {
    return json + ": " + e.what();
  }
  std::ofstream out(readme, std::ios::trunc);
  out << text;
  return out.flush() ? "" : "cannot write " + readme;
}

}  // namespace quantd::bench
