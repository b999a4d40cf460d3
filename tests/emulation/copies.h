// Asynchronous copies into shared memory, made as late as they may be: a
// thread's own when it waits for them, the copy engine's when somebody looks
// whether they are there. And the barriers that count both.
#ifndef QUANTD_TESTS_EMULATION_COPIES_H_
#define QUANTD_TESTS_EMULATION_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulation {

// cp.async of a thread.
struct ThreadCopies {
  struct Copy {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
    size_t zeros;  // behind them
  };
  std::vector<Copy> open;                 // not committed
  std::vector<std::vector<Copy>> groups;  // oldest first

  void Commit();
  // Makes all groups but the last `left`.
  void Await(size_t left);
  void AwaitAll();
};

// mbarrier, in the eight bytes at its address.
void InitBarrier(std::byte* at, uint32_t count);
void ExpectAt(std::byte* at, uint32_t bytes);
void ArriveAt(std::byte* at);
bool IsOver(std::byte* at, uint32_t parity);

// A box of a tensor map (runtime.cc makes those) at element (x, y): rows of 128
// bytes, pieces of 16 exchanged by the row's number modulo 8.
void CopyBox(const void* map, std::byte* to, int64_t x, int64_t y,
             std::byte* barrier);

// What runtime.cc puts into a CUtensorMap.
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
