// A pool of host memory. Sharing memory with a server or page-locking it takes
// longer than a call. Released memory is therefore kept for reuse.
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

// Hands out memory and takes it back when the last reference ends. Memory may
// outlive the pool. Thread-safe.
class HostPool : public std::enable_shared_from_this<HostPool> {
 public:
  struct Source {
    std::function<absl::StatusOr<HostMemory>(size_t bytes)> allocate;
    // Whether released memory may be handed out again.
    std::function<bool(const HostMemory&)> sound;
  };
  // Creates a pool that holds up to `most` bytes. Take may exceed that.
  static std::shared_ptr<HostPool> Create(Source source, size_t most);

  // Returns memory of `bytes` bytes with unspecified content, or an error of
  // Source::allocate.
  absl::StatusOr<HostMemory> Take(size_t bytes);
  // Like Take, but returns empty memory if the pool would exceed `most` bytes
  // or the allocation fails.
  HostMemory TakeWithin(size_t bytes);

 private:
  HostPool(Source source, size_t most)
      : source_(std::move(source)), most_(most) {}
  // The caller has added the memory's size to `held_`.
  HostMemory Lend(HostMemory memory, size_t bytes);
  HostMemory FindKept(size_t size);
  void Return(HostMemory memory);

  const Source source_;
  const size_t most_;
  std::mutex mutex_;
  std::vector<HostMemory> kept_;
  size_t held_ = 0;  // bytes handed out and kept
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_MEMORY_HOST_POOL_H_
