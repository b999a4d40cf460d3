// A pool of host memory: sharing memory with a server or page-locking it takes
// longer than a call.
#ifndef QUANTD_CLIENT_MEMORY_HOST_POOL_H_
#define QUANTD_CLIENT_MEMORY_HOST_POOL_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "quantd/buffers.h"

namespace quantd::client {

// Thread-safe. Memory taken from it may outlive the pool.
class HostPool : public std::enable_shared_from_this<HostPool> {
 public:
  struct Source {
    std::function<absl::StatusOr<HostMemory>(size_t bytes)> allocate;
    // Whether released memory may be used again.
    std::function<bool(const HostMemory&)> sound;
  };
  // Keeps up to `most` bytes, plus what was explicitly taken beyond them.
  static std::shared_ptr<HostPool> Create(Source source, size_t most);

  // Memory of that size, with unspecified content. Errors of Source::allocate.
  absl::StatusOr<HostMemory> Take(size_t bytes);
  // Like Take, but returns empty memory if the pool would exceed `most` or
  // memory is exhausted.
  HostMemory TakeWithin(size_t bytes);

 private:
  HostPool(Source source, size_t most)
      : source_(std::move(source)), most_(most) {}
  // `held_` already includes the memory's size.
  HostMemory Lend(HostMemory memory, size_t bytes);
  HostMemory FindKept(size_t size);
  void Return(HostMemory memory);

  const Source source_;
  const size_t most_;
  std::mutex mutex_;
  std::vector<HostMemory> kept_;
  size_t held_ = 0;  // lent and kept
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_MEMORY_HOST_POOL_H_
