// Asynchronous copies into shared memory, and the barriers that count them.
// Copies are made as late as possible: those of a thread when it waits for
// them, those of the copy engine when a thread tests a barrier.
#ifndef QUANTD_TESTS_EMULATION_COPIES_H_
#define QUANTD_TESTS_EMULATION_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulation {

// The cp.async copies of a thread.
struct ThreadCopies {
  struct Copy {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
    size_t zeros;  // written after the bytes
  };
  std::vector<Copy> open;                 // not committed
  std::vector<std::vector<Copy>> groups;  // oldest first

  void Commit();
  // Makes the copies of all groups except the last `left` ones.
  void Await(size_t left);
  void AwaitAll();
};

// Operations on an mbarrier, whose state is the eight bytes at `at`.
void InitBarrier(std::byte* at, uint32_t count);
void ExpectAt(std::byte* at, uint32_t bytes);
void ArriveAt(std::byte* at);
bool IsOver(std::byte* at, uint32_t parity);

// Queues the copy of the box at element (x, y) of a tensor map. Rows of a box
// are 128 bytes. Pieces of 16 bytes are swizzled by the row's number modulo 8.
void CopyBox(const void* map, std::byte* to, int64_t x, int64_t y,
             std::byte* barrier);

// The content of a CUtensorMap, which runtime.cc makes.
struct TensorMapFields {
  const std::byte* data;
  uint64_t cols;
  uint64_t rows;
  uint64_t pitch;
  uint32_t element_bytes;
  uint32_t box_cols;
  uint32_t box_rows;
};

}  // namespace emulation

#endif  // QUANTD_TESTS_EMULATION_COPIES_H_
