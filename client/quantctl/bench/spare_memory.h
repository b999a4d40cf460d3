// Where answers go, one for each call under way, again and again.
#ifndef QUANTD_CLIENT_QUANTCTL_BENCH_SPARE_MEMORY_H_
#define QUANTD_CLIENT_QUANTCTL_BENCH_SPARE_MEMORY_H_

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/quantctl/commands.h"

namespace quantd::quantctl {

// Thread-safe.
class SpareMemory {
 public:
  SpareMemory(Client* client, size_t bytes) : client_(*client), bytes_(bytes) {}

  absl::StatusOr<HostMemory> Take() {
    {
      const std::lock_guard lock(mutex_);
      if (!spare_.empty()) {
        HostMemory memory = std::move(spare_.back());
        spare_.pop_back();
        return memory;
      }
    }
    return client_.AllocateHost(bytes_);
  }
  void Put(HostMemory memory) {
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(memory));
  }

 private:
  Client& client_;
  const size_t bytes_;
  std::mutex mutex_;
  std::vector<HostMemory> spare_;
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_BENCH_SPARE_MEMORY_H_
