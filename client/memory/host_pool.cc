#include "client/memory/host_pool.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace quantd::client {
namespace {

constexpr size_t kLeast = size_t{64} << 10;

// Rounds up to one of eight sizes between two powers of two, so that released
// memory fits later requests.
size_t RoundUp(size_t bytes) {
  const size_t step = std::max(std::bit_floor(bytes) / 8, kLeast);
  if (bytes > SIZE_MAX - step) return bytes;
  return (bytes + step - 1) / step * step;
}

}  // namespace

std::shared_ptr<HostPool> HostPool::Create(Source source, size_t most) {
  return std::shared_ptr<HostPool>(new HostPool(std::move(source), most));
}

absl::StatusOr<HostMemory> HostPool::Take(size_t bytes) {
  const size_t size = RoundUp(bytes);
  HostMemory memory = FindKept(size);
  if (memory.bytes().empty()) {
    auto made = source_.allocate(size);
    if (absl::IsResourceExhausted(made.status())) {
      // The pool's unused memory may be what the system lacks: free it first.
      std::vector<HostMemory> unused;
      {
        const std::lock_guard lock(mutex_);
        unused.swap(kept_);
        for (const HostMemory& m : unused) held_ -= m.bytes().size();
      }
      unused.clear();
      made = source_.allocate(size);
    }
    if (!made.ok()) return made.status();
    memory = *std::move(made);
    const std::lock_guard lock(mutex_);
    held_ += memory.bytes().size();
  }
  return Lend(std::move(memory), bytes);
}

HostMemory HostPool::TakeWithin(size_t bytes) {
  const size_t size = RoundUp(bytes);
  HostMemory memory = FindKept(size);
  if (memory.bytes().empty()) {
    {
      const std::lock_guard lock(mutex_);
      if (held_ > most_ || size > most_ - held_) return {};
      held_ += size;
    }
    auto made = source_.allocate(size);
    if (!made.ok()) {
      const std::lock_guard lock(mutex_);
      held_ -= size;
      return {};
    }
    memory = *std::move(made);
  }
  return Lend(std::move(memory), bytes);
}

HostMemory HostPool::FindKept(size_t size) {
  std::vector<HostMemory> unsound;  // freed without the lock
  const std::lock_guard lock(mutex_);
  for (auto it = kept_.begin(); it != kept_.end();) {
    if (!source_.sound(*it)) {
      held_ -= it->bytes().size();
      unsound.push_back(std::move(*it));
      it = kept_.erase(it);
      continue;
    }
    if (it->bytes().size() != size) {
      ++it;
      continue;
    }
    HostMemory found = std::move(*it);
    kept_.erase(it);
    return found;
  }
  return {};
}

HostMemory HostPool::Lend(HostMemory memory, size_t bytes) {
  struct Loan {
    Loan(HostMemory m, std::weak_ptr<HostPool> p)
        : memory(std::move(m)), pool(std::move(p)) {}
    ~Loan() {
      if (const auto alive = pool.lock()) alive->Return(std::move(memory));
    }
    HostMemory memory;
    std::weak_ptr<HostPool> pool;
  };
  const auto span = memory.bytes().first(bytes);
  const bool shared = memory.shared();
  return HostMemory(span,
                    std::make_shared<Loan>(std::move(memory), weak_from_this()),
                    shared);
}

void HostPool::Return(HostMemory memory) {
  std::unique_lock lock(mutex_);
  if (held_ <= most_) {
    kept_.push_back(std::move(memory));
    return;
  }
  held_ -= memory.bytes().size();
  lock.unlock();
}

}  // namespace quantd::client
