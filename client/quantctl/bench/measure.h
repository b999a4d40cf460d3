// What a bench measures of one size.
#ifndef QUANTD_CLIENT_QUANTCTL_BENCH_MEASURE_H_
#define QUANTD_CLIENT_QUANTCTL_BENCH_MEASURE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/quantctl/bench/cell.h"
#include "client/quantctl/bench/echo_side.h"
#include "client/quantctl/commands.h"

namespace quantd::quantctl {

inline constexpr uint64_t kRowBytes = 2048;  // 1024 columns of bf16

struct BenchOptions {
  std::vector<uint64_t> sizes = {4 << 10, 1 << 20, 64 << 20};
  std::vector<std::string> amaxes;  // "given", "computed"; empty: as flags say
  std::vector<int> callers = {1};
  std::vector<double> rates;
  double seconds = 5;
  uint64_t calls = 100'000;
  int connections = 2;
  uint64_t band_bytes = 0;
  std::string echo;  // empty: none
  int rounds = 5;    // with an echo
  std::string svg;   // empty: no picture
  bool no_check = false;
};

// What is measured, and with what.
struct Setup {
  const Options& options;
  const BenchOptions& bench;
  Client& client;
  EchoSide* echo;  // null: none
  const std::atomic<int>& stop;
};

struct Failure {
  absl::Status status;
  bool of_echo = false;
};

// A tensor of the bench, and how it is quantized.
struct Task {
  std::string amax;  // of BenchOptions::amaxes, or empty
  QuantizeOptions how;
  Plan plan;

  uint64_t bytes() const { return plan.input_bytes(); }
  // What measuring it takes here, beside the server.
  uint64_t needs() const { return bytes() + 2 * plan.output_bytes(); }
};

// Every size with every amax. INVALID_ARGUMENT where one is not legal.
absl::StatusOr<std::vector<Task>> TasksOf(const Options& o,
                                          const BenchOptions& b);

// All loads of one.
Failure Measure(const Setup& setup, const Task& task, std::vector<Cell>* cells);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_BENCH_MEASURE_H_
