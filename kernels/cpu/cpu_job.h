// One job on the CPU, and the device state it works with.
#ifndef QUANTD_KERNELS_CPU_CPU_JOB_H_
#define QUANTD_KERNELS_CPU_CPU_JOB_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/tiles.h"
#include "kernels/hadamard.h"

namespace quantd::cpu {

using Signs = std::array<float, kRhtSize>;

// s[i] / 4 by sign mask, made once. Thread-safe and bounded: masks come from
// clients.
class SignCache {
 public:
  std::shared_ptr<const Signs> Get(const SignMask& mask, int dimension);

  std::atomic<uint64_t> hits = 0;
  std::atomic<uint64_t> misses = 0;

 private:
  using Key = std::pair<std::array<uint64_t, 2>, int>;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Signs>> entries_;  // guarded by mutex_
};

// What the jobs of one CPU device share. Outlives them.
struct CpuDevice {
  CpuDevice(const TileKernels* kernels, int thread_count,
            std::shared_ptr<BlockPool> memory)
      : tiles(kernels), pool(std::move(memory)), threads(thread_count) {}

  const TileKernels* const tiles;  // nullptr: the memcpy device
  const std::shared_ptr<BlockPool> pool;
  ThreadPool threads;
  SignCache signs;
  std::atomic<int> live = 0;  // a job takes itself off when it ends
  std::atomic<uint64_t> jobs = 0;
  std::atomic<uint64_t> rht_launches = 0;
};

// `in` and `out` have the plan's input_bytes() and output_bytes().
std::unique_ptr<Job> MakeCpuJob(CpuDevice* device,
                                std::shared_ptr<const Plan> plan, Block in,
                                Block out);

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_CPU_JOB_H_
