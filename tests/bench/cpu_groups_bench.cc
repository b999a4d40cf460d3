// Compares 1,000 groups with one group of the same bytes, on one core of the
// CPU backend: 256 MiB of bf16, K = 1024, groups of 0 to 262 rows. Results are
// medians of interleaved runs, and ratios of wall time and of CPU time.
//
//   cpu_groups_bench [runs, default 7] [JSON file]
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/bench/cpu_runs.h"

namespace {

using quantd::Format;
using quantd::QuantizeOptions;
using quantd::Usage;

constexpr int64_t kCols = 1024;
constexpr int64_t kRows = (int64_t{256} << 20) / (2 * kCols);
constexpr int kGroups = 1000;

// Returns group sizes from 0 to 262 in a scattered order. The remaining rows go
// to groups that can take one more.
std::vector<int64_t> Splits() {
  std::vector<int64_t> splits(kGroups);
  int64_t sum = 0;
  for (int i = 0; i < kGroups; ++i) {
    splits[i] = int64_t{i} * 97 % 263;
    sum += splits[i];
  }
  const int64_t step = sum < kRows ? 1 : -1;
  for (int i = 0; sum != kRows; i = (i + 1) % kGroups) {
    const int64_t n = splits[i] + step;
    if (splits[i] == 0 || n < 1 || n > 262) continue;
    splits[i] = n;
    sum += step;
  }
  return splits;
}

struct Side {
  std::shared_ptr<const quantd::Plan> plan;
  std::vector<double> wall = {};
  std::vector<double> cpu = {};
};
struct Row {
  std::string name;
  Side sides[2];  // one group, many groups
};

Row Make(std::string name, Format format, Usage usage, bool rht) {
  QuantizeOptions o;
  o.format = format;
  o.usage = usage;
  o.rht.columnwise = rht;
  auto one = quantd::PlanFor(kRows, kCols, o);
  o.splits = Splits();
  return {std::move(name), {{one}, {quantd::PlanFor(kRows, kCols, o)}}};
}

// Returns the median ratio of pairs. The two runs of a pair follow each other,
// in the same phase of the machine.
double RatioOfPairs(const std::vector<double>& a,
                    const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return quantd::Median(ratios);
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 7;
  const auto x = quantd::Gaussian(kRows * kCols * 2);
  const auto backend = quantd::OpenCpu("auto", 1);
  std::vector<Row> table = {
      Make("nvfp4_row", Format::kNvfp4, Usage::kRowwise, false),
      Make("nvfp4_both_col_rht", Format::kNvfp4, Usage::kBoth, true),
      Make("nvfp4_2d_both", Format::kNvfp4Square, Usage::kBoth, false),
      Make("mxfp8_both", Format::kMxfp8E4M3, Usage::kBoth, false),
      Make("fp8_block_both", Format::kFp8BlockE4M3, Usage::kBoth, false),
  };
  for (int i = -1; i < runs; ++i) {  // the first is a warm-up
    for (Row& row : table) {
      for (int turn : {i, i + 1}) {
        Side& side = row.sides[turn & 1];
        const auto seconds = quantd::RunOnce(*backend, side.plan, x);
        if (i < 0) continue;
        side.wall.push_back(seconds.wall);
        side.cpu.push_back(seconds.cpu);
      }
    }
  }
  nlohmann::json json = {
      {"input_mib", 256}, {"cols", kCols}, {"groups", kGroups}, {"runs", runs}};
  std::printf("%-20s %10s %14s %8s %14s\n", "one core, bf16", "1 group ms",
              "1000 groups ms", "ratio", "of CPU time");
  for (const Row& row : table) {
    const double one = quantd::Median(row.sides[0].wall);
    const double groups = quantd::Median(row.sides[1].wall);
    const double ratio = RatioOfPairs(row.sides[1].wall, row.sides[0].wall);
    const double cpu_ratio = RatioOfPairs(row.sides[1].cpu, row.sides[0].cpu);
    std::printf("%-20s %10.1f %14.1f %8.3f %14.3f\n", row.name.c_str(),
                one * 1e3, groups * 1e3, ratio, cpu_ratio);
    json["rows"].push_back({{"name", row.name},
                            {"one_group_ms", one * 1e3},
                            {"groups_ms", groups * 1e3},
                            {"ratio", ratio},
                            {"ratio_cpu_time", cpu_ratio}});
  }
  if (argc > 2) std::ofstream(argv[2]) << json.dump(1) << "\n";
  return 0;
}
