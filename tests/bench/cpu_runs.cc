#include "tests/bench/cpu_runs.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "kernels/device/devices.h"

namespace quantd {
namespace {

double Now(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <typename T>
T Must(absl::StatusOr<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    std::abort();
  }
  return *std::move(result);
}

}  // namespace

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

Seconds RunOnce(Backend& backend, std::shared_ptr<const Plan> plan,
                const std::vector<std::byte>& x) {
  auto job = Must(backend.Begin(std::move(plan)));
  std::memcpy(job->staging().data(), x.data(), x.size());
  const double wall = Now(CLOCK_MONOTONIC);
  const double cpu = Now(CLOCK_PROCESS_CPUTIME_ID);
  Must(job->Run());
  return {Now(CLOCK_MONOTONIC) - wall, Now(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

Block OutputOf(Backend& backend, std::shared_ptr<const Plan> plan,
               const std::vector<std::byte>& x) {
  auto job = Must(backend.Begin(std::move(plan)));
  std::memcpy(job->staging().data(), x.data(), x.size());
  Must(job->Run());
  return job->TakeOutput();
}

double TimeCopy(cpu::ThreadPool& threads, const Block& from, const Block& to,
                size_t chunk) {
  const size_t n = from.size();
  if (chunk == 0) chunk = (n / threads.threads() + 63) / 64 * 64;
  const double start = Now(CLOCK_MONOTONIC);
  threads.ParallelFor(
      static_cast<int64_t>((n + chunk - 1) / chunk), [&](int64_t i) {
        const size_t at = chunk * i;
        std::memcpy(to.data() + at, from.data() + at, std::min(chunk, n - at));
      });
  return Now(CLOCK_MONOTONIC) - start;
}

std::unique_ptr<Backend> OpenCpu(const std::string& isa, int threads) {
  BackendOptions options;
  options.threads = threads;
  options.isa = isa;
  options.memory_limit = size_t{8} << 30;
  return Must(OpenBackend("cpu", options));
}

std::shared_ptr<const Plan> PlanFor(int64_t rows, int64_t cols,
                                    const QuantizeOptions& options) {
  return std::make_shared<const Plan>(
      Must(MakeQuantizePlan({DType::kBF16, {rows, cols}, -1}, options)));
}

}  // namespace quantd
