// State shared by the jobs of one CPU device.
#ifndef QUANTD_KERNELS_CPU_CPU_DEVICE_H_
#define QUANTD_KERNELS_CPU_CPU_DEVICE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/tiles.h"
#include "kernels/device/memory.h"
#include "quantd/sign_mask.h"

namespace quantd::cpu {

// The n values s[i] * n^-1/2 of a rotation of dimension n.
using Signs = std::vector<float>;

// A cache of signs by mask and dimension. Thread-safe and bounded, because
// masks come from clients.
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

// State shared by the jobs of one CPU device. Must outlive them.
struct CpuDevice {
  CpuDevice(const TileKernels* kernels, int thread_count,
            std::shared_ptr<BlockPool> memory)
      : tiles(kernels), pool(std::move(memory)), threads(thread_count) {}

  const TileKernels* const tiles;  // nullptr for the memcpy device
  const std::shared_ptr<BlockPool> pool;
  ThreadPool threads;
  SignCache signs;
  std::atomic<int> live = 0;  // jobs that have not ended
  std::atomic<uint64_t> jobs = 0;
  std::atomic<uint64_t> rht_launches = 0;
};

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_CPU_DEVICE_H_
