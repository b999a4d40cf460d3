// The common parts of benchmarks of the CPU backend: their input, and a timed
// run.
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

// Returns the same normally distributed bf16 numbers at every call.
std::vector<std::byte> Gaussian(size_t bytes);

struct Seconds {
  double wall;
  double
      cpu;  // CPU seconds of all threads, which a busy machine does not distort
};
// Times a job of `plan` from when it has its input. Aborts on errors.
Seconds RunOnce(Backend& backend, std::shared_ptr<const Plan> plan,
                const std::vector<std::byte>& x);

// Returns the output of a job. Aborts on errors.
Block OutputOf(Backend& backend, std::shared_ptr<const Plan> plan,
               const std::vector<std::byte>& x);

// Returns the seconds of a copy. Free threads take `chunk` bytes at a time;
// with 0 each thread copies an equal share.
double TimeCopy(cpu::ThreadPool& threads, const Block& from, const Block& to,
                size_t chunk);

std::unique_ptr<Backend> OpenCpu(const std::string& isa, int threads);
std::shared_ptr<const Plan> PlanFor(int64_t rows, int64_t cols,
                                    const QuantizeOptions& options);

}  // namespace quantd

#endif  // QUANTD_TESTS_BENCH_CPU_RUNS_H_
