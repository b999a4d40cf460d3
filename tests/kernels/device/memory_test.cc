#include "kernels/device/memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/testing/matchers.h"

namespace quantd {
namespace {

constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;
constexpr size_t kMiB = size_t{1} << 20;

// A source that counts the bytes it lent, and can run out of memory.
std::atomic<int64_t> source_bytes{0};
std::atomic<int> source_calls{0};
std::atomic<bool> source_dry{false};
BlockSource CountingSource() {
  source_bytes = 0;
  source_calls = 0;
  source_dry = false;
  return {[](size_t bytes) -> void* {
            if (source_dry) return nullptr;
            source_bytes += static_cast<int64_t>(bytes);
            ++source_calls;
            return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
          },
          [](void* p, size_t bytes) {
            source_bytes -= static_cast<int64_t>(bytes);
            std::free(p);
          }};
}

TEST(BlockPoolTest, BlocksAreAlignedAndWritable) {
  auto pool = BlockPool::Create(PageableSource(), 64 * kMiB);
  for (size_t size : {size_t{1}, size_t{255}, size_t{4097}, 3 * kMiB + 5}) {
    auto block = pool->Take(size);
    ASSERT_THAT(block, IsOk());
    EXPECT_EQ(block->size(), size);
    EXPECT_EQ(block->bytes().size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data()) % 256, 0u);
    std::memset(block->data(), 0x5A, size);
  }
}

TEST(BlockPoolTest, EmptyBlockHasNoMemory) {
  auto pool = BlockPool::Create(CountingSource(), kMiB);
  auto block = pool->Take(0);
  ASSERT_THAT(block, IsOk());
  EXPECT_EQ(block->size(), 0u);
  EXPECT_EQ(source_calls, 0);
  EXPECT_EQ(pool->lent(), 0u);
}

TEST(BlockPoolTest, ChargesRoundUpByAtMostAnEighth) {
  EXPECT_EQ(BlockPool::Charge(1), 4096u);
  EXPECT_EQ(BlockPool::Charge(4096), 4096u);
  EXPECT_EQ(BlockPool::Charge(kMiB), kMiB);
  size_t last = 0;
  for (size_t size = 1; size < 64 * kMiB; size += size / 7 + 1) {
    const size_t charge = BlockPool::Charge(size);
    EXPECT_GE(charge, size);
    EXPECT_GE(charge, last);
    EXPECT_EQ(BlockPool::Charge(charge), charge) << size;
    EXPECT_LE(charge, size + size / 8 + 4096) << size;
    last = charge;
  }
}

TEST(BlockPoolTest, ReusesReturnedBlocks) {
  auto pool = BlockPool::Create(CountingSource(), 64 * kMiB);
  std::byte* first = pool->Take(kMiB)->data();
  EXPECT_EQ(pool->lent(), 0u);
  auto again = pool->Take(kMiB);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->data(), first);
  EXPECT_EQ(source_calls, 1);
  EXPECT_EQ(pool->lent(), BlockPool::Charge(kMiB));
}

TEST(BlockPoolTest, RefusesBeyondItsLimit) {
  auto pool = BlockPool::Create(CountingSource(), 4 * kMiB);
  EXPECT_THAT(pool->Take(5 * kMiB), StatusIs(kExhausted));
  EXPECT_THAT(pool->Take(SIZE_MAX), StatusIs(kExhausted));
  EXPECT_THAT(pool->Take(SIZE_MAX - 4095), StatusIs(kExhausted));
  std::vector<Block> held;
  for (int i = 0; i < 4; ++i) {
    auto block = pool->Take(kMiB);
    ASSERT_THAT(block, IsOk());
    held.push_back(*std::move(block));
  }
  EXPECT_THAT(pool->Take(1), StatusIs(kExhausted));
  held.pop_back();
  EXPECT_THAT(pool->Take(kMiB), IsOk());
  EXPECT_LE(pool->high_water(), pool->limit());
  EXPECT_LE(source_bytes, static_cast<int64_t>(pool->limit()));
}

TEST(BlockPoolTest, UnusedBlocksAreFreedForOtherSizes) {
  auto pool = BlockPool::Create(CountingSource(), 4 * kMiB);
  { auto small = pool->Take(kMiB), other = pool->Take(kMiB); }
  EXPECT_THAT(pool->Take(4 * kMiB), IsOk());
  EXPECT_LE(source_bytes, static_cast<int64_t>(4 * kMiB));
}

TEST(BlockPoolTest, AFailingSourceIsAnError) {
  auto pool = BlockPool::Create(CountingSource(), 4 * kMiB);
  source_dry = true;
  EXPECT_THAT(pool->Take(kMiB), StatusIs(kExhausted));
  EXPECT_EQ(pool->lent(), 0u);
  source_dry = false;
  EXPECT_THAT(pool->Take(kMiB), IsOk());
}

TEST(BlockPoolTest, BlockOutlivesItsPoolsOwners) {
  auto pool = BlockPool::Create(CountingSource(), 4 * kMiB);
  auto block = pool->Take(kMiB);
  ASSERT_THAT(block, IsOk());
  pool.reset();
  std::memset(block->data(), 1, block->size());
  *block = Block();
  EXPECT_EQ(source_bytes, 0);
}

TEST(BlockPoolTest, MovedFromBlockIsEmpty) {
  auto pool = BlockPool::Create(CountingSource(), 4 * kMiB);
  Block a = *pool->Take(kMiB);
  std::byte* data = a.data();
  Block b = std::move(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(a.size(), 0u);
  b = *pool->Take(2 * kMiB);
  EXPECT_EQ(pool->lent(), BlockPool::Charge(2 * kMiB));
}

TEST(BlockPoolTest, ManyThreads) {
  auto pool = BlockPool::Create(CountingSource(), 8 * kMiB);
  std::vector<std::thread> threads;
  std::atomic<int> taken{0};
  std::atomic<int> clashes{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        auto block = pool->Take(4096 * (1 + (i * 7 + t) % 300));
        if (!block.ok()) continue;
        ++taken;
        const auto mark = static_cast<std::byte>(16 * t + i % 16);
        block->data()[0] = mark;
        block->data()[block->size() - 1] = mark;
        std::this_thread::yield();
        if (block->data()[0] != mark) ++clashes;
        if (block->data()[block->size() - 1] != mark) ++clashes;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GT(taken, 4000);
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(pool->lent(), 0u);
  EXPECT_LE(pool->high_water(), pool->limit());
  pool.reset();
  EXPECT_EQ(source_bytes, 0);
}

}  // namespace
}  // namespace quantd
