#include "kernels/device/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/device/out_of_memory.h"

namespace quantd {
namespace {

void* AllocatePages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  // Requests large pages; only a hint.
  if (bytes >= size_t{2} << 20) madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

void ReleasePages(void* p, size_t bytes) { munmap(p, bytes); }

}  // namespace

BlockSource PageableSource() { return {AllocatePages, ReleasePages}; }

struct BlockPool::State {
  // Not absl::Mutex: the thread sanitizer cannot see into a packaged absl.
  std::mutex mutex;  // guards the rest
  // Unused blocks by capacity; the most recently returned at the back.
  std::map<size_t, std::vector<std::byte*>> kept;
  size_t lent = 0;
  size_t held = 0;  // lent and unused
  size_t high_water = 0;
};

Block::Block(Block&& other) noexcept { *this = std::move(other); }

Block& Block::operator=(Block&& other) noexcept {
  if (this == &other) return *this;
  if (pool_ && data_) pool_->Return(data_, capacity_);
  pool_ = std::move(other.pool_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  capacity_ = std::exchange(other.capacity_, 0);
  return *this;
}

Block::~Block() {
  if (pool_ && data_) pool_->Return(data_, capacity_);
}

std::shared_ptr<BlockPool> BlockPool::Create(BlockSource source, size_t limit) {
  return std::shared_ptr<BlockPool>(new BlockPool(source, limit));
}

BlockPool::BlockPool(BlockSource source, size_t limit)
    : source_(source), limit_(limit), state_(std::make_unique<State>()) {}

BlockPool::~BlockPool() {
  for (auto& [capacity, blocks] : state_->kept) {
    for (std::byte* p : blocks) source_.release(p, capacity);
  }
}

size_t BlockPool::Charge(size_t bytes) {
  if (bytes == 0) return 0;
  if (bytes <= 4096) return 4096;
  const size_t step = std::bit_floor(bytes - 1) / 8;
  const size_t unit = std::max<size_t>(step, 4096);
  return (bytes + unit - 1) / unit * unit;
}

absl::StatusOr<Block> BlockPool::Take(size_t bytes) {
  Block block;
  block.size_ = bytes;
  if (bytes == 0) return block;
  // Requests beyond the limit fail, and rounding them up could overflow.
  const size_t capacity = bytes > limit_ ? bytes : Charge(bytes);
  std::vector<std::pair<std::byte*, size_t>> evicted;
  {
    std::lock_guard lock(state_->mutex);
    auto it = state_->kept.find(capacity);
    if (it != state_->kept.end() && !it->second.empty()) {
      block.data_ = it->second.back();
      it->second.pop_back();
    } else {
      if (capacity > limit_ || state_->lent > limit_ - capacity) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "payload memory: ", capacity, " bytes asked for, ",
            limit_ - std::min(limit_, state_->lent), " of ", limit_, " free"));
      }
      // Frees unused blocks, largest first.
      while (state_->held + capacity > limit_) {
        auto last = std::prev(state_->kept.end());
        if (last->second.empty()) {
          state_->kept.erase(last);
          continue;
        }
        evicted.emplace_back(last->second.back(), last->first);
        last->second.pop_back();
        state_->held -= last->first;
      }
      state_->held += capacity;
    }
    state_->lent += capacity;
    state_->high_water = std::max(state_->high_water, state_->held);
  }
  for (auto [p, size] : evicted) source_.release(p, size);
  if (block.data_ == nullptr) {
    block.data_ = static_cast<std::byte*>(source_.allocate(capacity));
    if (block.data_ == nullptr) {
      std::lock_guard lock(state_->mutex);
      state_->lent -= capacity;
      state_->held -= capacity;
      return OutOfMemoryError(
          absl::StrCat("no memory for ", capacity, " bytes of payload"));
    }
  }
  block.capacity_ = capacity;
  block.pool_ = shared_from_this();
  return block;
}

void BlockPool::Return(std::byte* data, size_t capacity) {
  std::lock_guard lock(state_->mutex);
  state_->kept[capacity].push_back(data);
  state_->lent -= capacity;
}

size_t BlockPool::lent() const {
  std::lock_guard lock(state_->mutex);
  return state_->lent;
}

size_t BlockPool::high_water() const {
  std::lock_guard lock(state_->mutex);
  return state_->high_water;
}

}  // namespace quantd
