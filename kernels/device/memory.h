// Memory for payloads: aligned blocks from a bounded pool, which keeps returned
// blocks, so that steady traffic causes no page faults.
//
// Threads: everything here may be used from any thread. A Block keeps its pool
// alive.
#ifndef QUANTD_KERNELS_DEVICE_MEMORY_H_
#define QUANTD_KERNELS_DEVICE_MEMORY_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace quantd {

class BlockPool;

// One block, which returns to its pool on destruction. Move-only.
class Block {
 public:
  Block() = default;
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;
  ~Block();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }  // the requested size
  absl::Span<std::byte> bytes() const { return {data_, size_}; }

 private:
  friend class BlockPool;
  std::shared_ptr<BlockPool> pool_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// The source of a pool's memory. Its functions may be called from any thread
// and must not throw. `allocate` returns 256-byte aligned memory, or nullptr on
// failure.
struct BlockSource {
  void* (*allocate)(size_t bytes);
  void (*release)(void* p, size_t bytes);
};
// A source of ordinary (not page-locked) memory.
BlockSource PageableSource();

class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  // Makes a pool that never holds more than `limit` bytes, including unused
  // blocks.
  static std::shared_ptr<BlockPool> Create(BlockSource source, size_t limit);
  ~BlockPool();

  // Lends a block. RESOURCE_EXHAUSTED if the limit is reached, OutOfMemoryError
  // if the source fails. A block of 0 bytes is legal and has no memory.
  absl::StatusOr<Block> Take(size_t bytes);

  // The bytes that Take(bytes) counts against the limit: sizes are rounded up
  // to one of eight steps between two powers of two, at least to 4 KiB.
  static size_t Charge(size_t bytes);

  size_t lent() const;
  size_t high_water() const;  // the most bytes held so far
  size_t limit() const { return limit_; }

 private:
  struct State;
  friend class Block;
  BlockPool(BlockSource source, size_t limit);
  void Return(std::byte* data, size_t capacity);

  const BlockSource source_;
  const size_t limit_;
  std::unique_ptr<State> state_;
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_MEMORY_H_
