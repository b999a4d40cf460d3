// CPU backend: GB/s of input per core beside a memcpy of the same bytes in the
// same run. Medians; ISAs and ceilings interleaved, so that a slow phase of the
// machine hits all alike.
//
//   cpu_bench [MiB of bf16 input, default 64] [runs, default 11] [JSON file]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/bench/cpu_runs.h"

namespace {

using Clock = std::chrono::steady_clock;
using quantd::Format;
using quantd::QuantizeOptions;
using quantd::Usage;

struct Case {
  const char* name;
  Format format;
  Usage usage;
  void (*also)(QuantizeOptions&);
};

void GivenAmax(QuantizeOptions& o) {
  o.rowwise_amax = o.columnwise_amax = {5.0f};
}
void Nothing(QuantizeOptions&) {}

constexpr Case kCases[] = {
    {"nvfp4_row", Format::kNvfp4, Usage::kRowwise, GivenAmax},
    {"nvfp4_row_rht", Format::kNvfp4, Usage::kRowwise,
     [](QuantizeOptions& o) {
       o.rht.rowwise = true;
       o.rowwise_amax = {5.0f};
     }},
    {"nvfp4_row_rht_amax", Format::kNvfp4, Usage::kRowwise,
     [](QuantizeOptions& o) { o.rht.rowwise = true; }},
    {"nvfp4_col_rht", Format::kNvfp4, Usage::kColumnwise,
     [](QuantizeOptions& o) {
       o.rht.columnwise = true;
       o.columnwise_amax = {5.0f};
     }},
    {"nvfp4_both_rht", Format::kNvfp4, Usage::kBoth,
     [](QuantizeOptions& o) {
       o.rht.rowwise = o.rht.columnwise = true;
       GivenAmax(o);
     }},
    {"nvfp4_row_stochastic", Format::kNvfp4, Usage::kRowwise,
     [](QuantizeOptions& o) {
       GivenAmax(o);
       o.rounding = quantd::Rounding::kStochastic;
     }},
    {"nvfp4_row_4over6", Format::kNvfp4, Usage::kRowwise,
     [](QuantizeOptions& o) {
       GivenAmax(o);
       o.four_over_six = quantd::FourOverSix::kMae;
     }},
    {"nvfp4_2d_both", Format::kNvfp4Square, Usage::kBoth, GivenAmax},
    {"mxfp8_both", Format::kMxfp8E4M3, Usage::kBoth, Nothing},
    {"mxfp4_both", Format::kMxfp4, Usage::kBoth, Nothing},
    {"fp8_e4m3_row", Format::kFp8E4M3, Usage::kRowwise, Nothing},
    {"fp8_block_row", Format::kFp8BlockE4M3, Usage::kRowwise, Nothing},
    {"fp8_block_2d_both", Format::kFp8SquareE4M3, Usage::kBoth, Nothing},
    {"dbias", Format::kNvfp4, Usage::kNone,
     [](QuantizeOptions& o) { o.dbias = true; }},
};

// One measured thing: a name and how to do it once; returns seconds.
struct Row {
  std::string name;
  std::string isa;
  std::function<double()> once;
  std::vector<double> seconds;
};

}  // namespace

int main(int argc, char** argv) {
  const size_t mib = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 64;
  const int runs = argc > 2 ? std::atoi(argv[2]) : 11;
  const int64_t cols = 4096;
  const int64_t rows = static_cast<int64_t>(mib << 20) / (2 * cols);
  const std::vector<std::byte> x = quantd::Gaussian(rows * cols * 2);
  std::vector<std::byte> y(x.size());

  std::vector<std::unique_ptr<quantd::Backend>> backends;
  std::vector<Row> table;
  table.push_back(
      {"memcpy",
       "libc",
       [&] {
         const auto start = Clock::now();
         std::memcpy(y.data(), x.data(), x.size());
         return std::chrono::duration<double>(Clock::now() - start).count();
       },
       {}});
  for (const std::string& isa : quantd::ListCpuIsas()) {
    backends.push_back(quantd::OpenCpu(isa, 1));
    for (const Case& c : kCases) {
      QuantizeOptions o;
      o.format = c.format;
      o.usage = c.usage;
      c.also(o);
      auto plan = quantd::PlanFor(rows, cols, o);
      table.push_back({c.name,
                       isa,
                       [&x, plan, b = backends.back().get()] {
                         return quantd::RunOnce(*b, plan, x).wall;
                       },
                       {}});
    }
  }
  for (int i = -1; i < runs; ++i) {  // the first is a warm-up
    for (Row& row : table) {
      const double s = row.once();
      if (i >= 0) row.seconds.push_back(s);
    }
  }

  const double gb = x.size() * 1e-9;
  const double ceiling = gb / quantd::Median(table[0].seconds);
  nlohmann::json json = {{"input_mib", mib}, {"threads", 1}, {"runs", runs}};
  std::printf("%-20s %-9s %14s %10s\n", "one core, bf16", "isa",
              "GB/s of input", "of memcpy");
  for (const Row& row : table) {
    const double rate = gb / quantd::Median(row.seconds);
    std::printf("%-20s %-9s %14.2f %10.2f\n", row.name.c_str(), row.isa.c_str(),
                rate, rate / ceiling);
    json["rows"].push_back({{"name", row.name},
                            {"isa", row.isa},
                            {"gbps_input", rate},
                            {"ratio_to_memcpy", rate / ceiling}});
  }
  if (argc > 3) std::ofstream(argv[3]) << json.dump(1) << "\n";
  return 0;
}
