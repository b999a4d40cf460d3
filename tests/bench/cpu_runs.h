// What the benchmarks of the CPU backend share: their input, and one timed run.
#ifndef QUANTD_TESTS_BENCH_CPU_RUNS_H_
#define QUANTD_TESTS_BENCH_CPU_RUNS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "kernels/device/backend.h"
#include "quantd/plan.h"
#include "tests/bench/quantile.h"

namespace quantd {

// bf16, normally distributed, the same every time.
std::vector<std::byte> Gaussian(size_t bytes);

struct Seconds {
  double wall;
  double cpu;  // of all threads: what a busy machine does not distort
};
// What a job of `plan` takes once it has its input. Aborts on errors.
Seconds RunOnce(Backend& backend, std::shared_ptr<const Plan> plan,
                const std::vector<std::byte>& x);

// What it makes. Aborts on errors.
Block OutputOf(Backend& backend, std::shared_ptr<const Plan> plan,
               const std::vector<std::byte>& x);

// Seconds of a copy. Free threads take `chunk` bytes at a time; 0: each thread
// copies its share.
double TimeCopy(cpu::ThreadPool& threads, const Block& from, const Block& to,
                size_t chunk);

std::unique_ptr<Backend> OpenCpu(const std::string& isa, int threads);
std::shared_ptr<const Plan> PlanFor(int64_t rows, int64_t cols,
                                    const QuantizeOptions& options);

}  // namespace quantd

#endif  // QUANTD_TESTS_BENCH_CPU_RUNS_H_
