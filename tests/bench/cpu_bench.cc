// Measures the CPU backend in GB/s of input. The ceiling is a memcpy of the
// same bytes by as many threads in the same run. Results are medians.
// Instruction sets and ceilings are interleaved, so that a slow phase of the
// machine affects all of them. All bytes are in the memory that jobs use
// (kernels/device/memory.h).
//
//   cpu_bench [--mib 64] [--runs 11] [--threads 1,0] [--isa baseline,avx2]
//             [--only NAME,NAME] [--json FILE] [--host NAME] [--commit ID]
//             [--date DATE] [--dump FOLDER]
//   cpu_bench --matrix PATH [--only GLOB,GLOB] [--every N] [--mib] [--runs] ...
//
// --matrix measures every cell of the support table with the last of the
// threads and instruction sets, and writes PATH.json and PATH.txt. It exits
// with 1 if bytes differ. 0 threads means all cores. Without --isa all
// instruction sets of the machine run; "best" means the last one.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "kernels/cpu/thread_pool.h"
#include "kernels/device/devices.h"
#include "kernels/device/memory.h"
#include "nlohmann/json.hpp"
#include "tests/bench/cpu_runs.h"
#include "tests/bench/matrix/cpu_matrix.h"

namespace {

using quantd::Format;
using quantd::QuantizeOptions;
using quantd::Usage;

void Nothing(QuantizeOptions&) {}
void GivenAmax(QuantizeOptions& o) {
  if (HasRowwise(o.usage)) o.rowwise_amax = {5.0f};
  if (HasColumnwise(o.usage)) o.columnwise_amax = {5.0f};
}

struct Case {
  const char* name;
  Format format;
  Usage usage;
  void (*amax)(QuantizeOptions&) = Nothing;
  void (*also)(QuantizeOptions&) = Nothing;
};

constexpr Case kCases[] = {
    {"nvfp4_row", Format::kNvfp4, Usage::kRowwise, GivenAmax},
    {"nvfp4_row_rht", Format::kNvfp4, Usage::kRowwise, GivenAmax,
     [](QuantizeOptions& o) { o.rht.rowwise = true; }},
    {"nvfp4_col_rht", Format::kNvfp4, Usage::kColumnwise, GivenAmax,
     [](QuantizeOptions& o) { o.rht.columnwise = true; }},
    {"nvfp4_both_rht", Format::kNvfp4, Usage::kBoth, GivenAmax,
     [](QuantizeOptions& o) { o.rht.rowwise = o.rht.columnwise = true; }},
    {"nvfp4_row_stochastic", Format::kNvfp4, Usage::kRowwise, GivenAmax,
     [](QuantizeOptions& o) { o.rounding = quantd::Rounding::kStochastic; }},
    {"nvfp4_row_4over6", Format::kNvfp4, Usage::kRowwise, GivenAmax,
     [](QuantizeOptions& o) {
       o.nvfp4.four_over_six = quantd::FourOverSix::kMae;
     }},
    {"nvfp4_row_search", Format::kNvfp4, Usage::kRowwise, GivenAmax,
     [](QuantizeOptions& o) { o.nvfp4.scale_search = true; }},
    {"nvfp4_2d_both", Format::kNvfp4Square, Usage::kBoth, GivenAmax},
    {"mxfp8_row", Format::kMxfp8E4M3, Usage::kRowwise},
    {"mxfp8_col", Format::kMxfp8E4M3, Usage::kColumnwise},
    {"mxfp8_both", Format::kMxfp8E4M3, Usage::kBoth},
    {"mxfp4_both", Format::kMxfp4, Usage::kBoth},
    {"fp8_e4m3_row", Format::kFp8E4M3, Usage::kRowwise, GivenAmax},
    {"fp8_e4m3_both", Format::kFp8E4M3, Usage::kBoth, GivenAmax},
    {"fp8_block_row", Format::kFp8BlockE4M3, Usage::kRowwise},
    {"fp8_block_both", Format::kFp8BlockE4M3, Usage::kBoth},
    {"fp8_block_2d_both", Format::kFp8SquareE4M3, Usage::kBoth},
};

// A measured row: its name, and a function that runs it once and returns
// seconds.
struct Row {
  std::string name;
  std::string isa;
  int threads;
  std::function<double()> once;
  std::vector<double> seconds = {};
};

struct Flags {
  size_t mib = 64;
  int runs = 11;
  std::vector<int> threads = {1, 0};
  std::vector<std::string> isas = quantd::ListCpuIsas();
  std::vector<std::string> only;
  std::string json;
  std::string host;
  std::string commit;
  std::string date;
  std::string dump;
  std::string matrix;
  int every = 1;
};

void Write(const std::string& path, const std::byte* data, size_t size) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data),
             static_cast<std::streamsize>(size));
}

int RunMatrix(const Flags& flags, int64_t rows, int64_t cols) {
  int wrong = 0;
  const auto results =
      quantd::bench::MeasureOnCpu({rows, cols, flags.runs, flags.threads.back(),
                                   flags.isas.back(), flags.every, flags.only},
                                  &wrong);
  std::printf("%s", results.Text().c_str());
  const std::string shape = std::to_string(rows) + "x" + std::to_string(cols);
  const bool written = results.Write(flags.matrix, shape,
                                     {{"device", flags.host},
                                      {"isa", flags.isas.back()},
                                      {"threads", flags.threads.back()},
                                      {"runs", flags.runs},
                                      {"wrong", wrong},
                                      {"commit", flags.commit},
                                      {"date", flags.date}});
  if (!written) std::fprintf(stderr, "cannot write %s\n", flags.matrix.c_str());
  return written && wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Measures the CPU backend and memcpy");
  app.add_option("--mib", flags.mib, "MiB of bf16 input")
      ->capture_default_str();
  int64_t cols = 4096;
  app.add_option("--cols", cols, "Columns of the input")->capture_default_str();
  app.add_option("--runs", flags.runs, "Number of runs for each median")
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "0: all cores")->delimiter(',');
  app.add_option("--isa", flags.isas, "best: the last one listed")
      ->delimiter(',');
  app.add_option("--only", flags.only, "Names of rows; all by default")
      ->delimiter(',');
  app.add_option("--json", flags.json, "File for the results");
  app.add_option("--host", flags.host, "Name of this machine, for the results");
  app.add_option("--commit", flags.commit,
                 "Commit of this build, for the results");
  app.add_option("--date", flags.date, "Date, for the results");
  app.add_option("--dump", flags.dump,
                 "Folder for the input and the output tensors");
  app.add_option("--matrix", flags.matrix,
                 "Measure the whole support table, and write PATH.json and "
                 "PATH.txt");
  app.add_option("--every", flags.every,
                 "Measure only every Nth cell of the matrix")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  for (int& n : flags.threads) n = n > 0 ? n : cores;
  for (std::string& isa : flags.isas) {
    if (isa == "best") isa = quantd::ListCpuIsas().back();
  }
  const int64_t rows = static_cast<int64_t>(flags.mib << 20) / (2 * cols);
  if (!flags.matrix.empty()) return RunMatrix(flags, rows, cols);
  const std::vector<std::byte> x = quantd::Gaussian(rows * cols * 2);
  const auto pool =
      quantd::BlockPool::Create(quantd::PageableSource(), 3 * x.size());
  const quantd::Block from = *pool->Take(x.size());
  const quantd::Block to = *pool->Take(x.size());
  std::memcpy(from.data(), x.data(), x.size());
  if (!flags.dump.empty()) Write(flags.dump + "/input", x.data(), x.size());

  std::vector<std::unique_ptr<quantd::Backend>> backends;
  std::vector<std::unique_ptr<quantd::cpu::ThreadPool>> pools;
  std::vector<Row> table;
  for (const int threads : flags.threads) {
    pools.push_back(std::make_unique<quantd::cpu::ThreadPool>(threads));
    const auto copy = [&from, &to, pool = pools.back().get()](size_t chunk) {
      return [&from, &to, pool, chunk] {
        return quantd::TimeCopy(*pool, from, to, chunk);
      };
    };
    table.push_back({"memcpy", "libc", threads, copy(0)});
    table.push_back({"memcpy_4mib", "libc", threads, copy(size_t{4} << 20)});
    for (const std::string& isa : flags.isas) {
      backends.push_back(quantd::OpenCpu(isa, threads));
      for (const Case& c : kCases) {
        if (!flags.only.empty() &&
            std::count(flags.only.begin(), flags.only.end(), c.name) == 0) {
          continue;
        }
        QuantizeOptions o;
        o.format = c.format;
        o.usage = c.usage;
        c.amax(o);
        c.also(o);
        const auto plan = quantd::PlanFor(rows, cols, o);
        table.push_back(
            {c.name, isa, threads, [&x, plan, b = backends.back().get()] {
               return quantd::RunOnce(*b, plan, x).wall;
             }});
        if (flags.dump.empty()) continue;
        const quantd::Block out = quantd::OutputOf(*backends.back(), plan, x);
        for (const quantd::TensorSpec& spec : plan->outputs()) {
          Write(flags.dump + "/" + c.name + "." +
                    std::string(quantd::Name(spec.kind)),
                out.data() + spec.offset, spec.size);
        }
      }
    }
  }
  for (int i = -1; i < flags.runs; ++i) {  // the first is a warm-up
    for (Row& row : table) {
      const double s = row.once();
      if (i >= 0) row.seconds.push_back(s);
    }
  }

  nlohmann::json json = {{"device", flags.host},   {"commit", flags.commit},
                         {"date", flags.date},     {"cores", cores},
                         {"input_mib", flags.mib}, {"runs", flags.runs}};
  std::printf("%-26s %-9s %7s %14s %10s %10s\n", "bf16", "isa", "threads",
              "GB/s of input", "ceiling", "ratio");
  const double gb = static_cast<double>(x.size()) * 1e-9;
  for (const Row& row : table) {
    const double rate = gb / quantd::Median(row.seconds);
    double ceiling = 0;  // the faster of two copies
    for (const Row& copy : table) {
      if (copy.isa != "libc" || copy.threads != row.threads) continue;
      ceiling = std::max(ceiling, gb / quantd::Median(copy.seconds));
    }
    std::printf("%-26s %-9s %7d %14.2f %10.2f %10.2f\n", row.name.c_str(),
                row.isa.c_str(), row.threads, rate, ceiling, rate / ceiling);
    json["rows"].push_back({{"name", row.name},
                            {"isa", row.isa},
                            {"threads", row.threads},
                            {"gbps", rate},
                            {"ceiling_gbps", ceiling},
                            {"ratio", rate / ceiling}});
  }
  if (!flags.json.empty()) std::ofstream(flags.json) << json.dump(1) << "\n";
  return 0;
}
