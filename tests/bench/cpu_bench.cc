// CPU backend: GB/s of input per core beside a memcpy of the same bytes in the
// same run. Medians; ISAs and ceilings interleaved, so that a slow phase of the
// machine hits all alike.
//
//   cpu_bench [MiB of bf16 input, default 64] [runs, default 11] [JSON file]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "nlohmann/json.hpp"

namespace {

using quantd::Backend;
using Clock = std::chrono::steady_clock;

struct Case {
  const char* name;
  quantd::Usage usage;
  bool rht;
  bool amax_given;
};
constexpr Case kCases[] = {
    {"nvfp4_row", quantd::Usage::kRowwise, false, true},
    {"nvfp4_row_rht", quantd::Usage::kRowwise, true, true},
    {"nvfp4_row_rht_amax", quantd::Usage::kRowwise, true, false},
    {"nvfp4_col_rht", quantd::Usage::kColumnwise, true, true},
    {"nvfp4_both_rht", quantd::Usage::kBoth, true, true},
};

// One measured thing: a name and how to do it once; returns seconds.
struct Row {
  std::string name;
  std::string isa;
  std::function<double()> once;
  std::vector<double> seconds;
};

double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
  return v[v.size() / 2];
}

std::vector<std::byte> Gaussian(size_t bytes) {
  std::vector<std::byte> x(bytes);
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < bytes / 2; ++i) {
    const float f = normal(rng);
    std::memcpy(&x[2 * i], reinterpret_cast<const char*>(&f) + 2, 2);
  }
  return x;
}

double RunOnce(Backend& backend, std::shared_ptr<const quantd::Plan> plan,
               const std::vector<std::byte>& x) {
  auto job = backend.Begin(std::move(plan));
  if (!job.ok()) std::abort();
  std::memcpy((*job)->staging().data(), x.data(), x.size());
  const auto start = Clock::now();
  if (!(*job)->Run().ok()) std::abort();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  const size_t mib = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 64;
  const int runs = argc > 2 ? std::atoi(argv[2]) : 11;
  const int64_t cols = 4096;
  const int64_t rows = static_cast<int64_t>(mib << 20) / (2 * cols);
  const std::vector<std::byte> x = Gaussian(rows * cols * 2);
  std::vector<std::byte> y(x.size());

  std::vector<std::unique_ptr<Backend>> backends;
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
    quantd::BackendOptions options;
    options.threads = 1;
    options.isa = isa;
    options.memory_limit = size_t{8} << 30;
    backends.push_back(*quantd::OpenBackend("cpu", options));
    for (const Case& c : kCases) {
      quantd::QuantizeOptions o;
      o.format = quantd::Format::kNvfp4;
      o.usage = c.usage;
      o.rht.rowwise = o.rht.columnwise = c.rht;
      if (c.amax_given) o.rowwise_amax = o.columnwise_amax = {5.0f};
      auto plan =
          std::make_shared<const quantd::Plan>(*quantd::MakeQuantizePlan(
              {quantd::DType::kBF16, {rows, cols}, -1}, o));
      table.push_back({c.name,
                       isa,
                       [&x, plan, b = backends.back().get()] {
                         return RunOnce(*b, plan, x);
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
  const double ceiling = gb / Median(table[0].seconds);
  nlohmann::json json = {{"input_mib", mib}, {"threads", 1}, {"runs", runs}};
  std::printf("%-20s %-9s %14s %10s\n", "one core, bf16", "isa",
              "GB/s of input", "of memcpy");
  for (const Row& row : table) {
    const double rate = gb / Median(row.seconds);
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
