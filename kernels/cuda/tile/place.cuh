// The position of a tile, which the sending warp passes to the receiving team.
#ifndef QUANTD_KERNELS_CUDA_TILE_PLACE_CUH_
#define QUANTD_KERNELS_CUDA_TILE_PLACE_CUH_

#include <cstdint>
#include <cstring>

#include "kernels/arith/lanes.h"

namespace quantd::cuda {

// The position and the size of a tile. The tensor has fewer than 2^31 rows and
// columns.
struct alignas(16) Place {
  uint32_t group;
  uint32_t chunk;     // within the group
  uint32_t row, col;  // within the group
  int rows;           // 1 to 128; 0: no tile; kNoMore: the end
  int cols;           // 1 to 128
  uint32_t number;    // index in a run of tiles of one group, one below the
                      // other, that a team receives
  uint32_t last;      // 1 if this is the last tile of the run, else 0

  static constexpr int kNoMore = -1;
};

// Writes a Place to shared memory.
//
// Uses atomic exchanges. Mbarriers order plain stores just as well, but
// compute-sanitizer does not recognise that if the wait is in a loop.
__device__ __forceinline__ void PutPlace(const Place& from, Place* to) {
#if __CUDA_ARCH__ >= 900
  using Word = uint4;
#else
  using Word = unsigned long long;  // NOLINT(runtime/int): atomicExch's
#endif
  constexpr int kWords = sizeof(Place) / sizeof(Word);
  Word words[kWords];
  memcpy(words, &from, sizeof(Place));
  QUANTD_UNROLL
  for (int i = 0; i < kWords; ++i) {
    atomicExch(reinterpret_cast<Word*>(to) + i, words[i]);
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_PLACE_CUH_
