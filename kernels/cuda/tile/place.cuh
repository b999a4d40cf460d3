// The place of a tile, which the warp that sends it passes to the team that
// receives it.
#ifndef QUANTD_KERNELS_CUDA_TILE_PLACE_CUH_
#define QUANTD_KERNELS_CUDA_TILE_PLACE_CUH_

#include <cstdint>
#include <cstring>

#include "kernels/arith/lanes.h"

namespace quantd::cuda {

// The place of a tile and its size. All rows and all columns are fewer than
// 2^31.
struct alignas(16) Place {
  uint32_t group;
  uint32_t chunk;     // within the group
  uint32_t row, col;  // within the group
  int rows;           // 1 to 128; 0: no tile; kNoMore
  int cols;           // 1 to 128
  uint32_t number;    // index among the tiles of one group that a team receives
                      // in a run, one below the other
  uint32_t last;      // the last such index

  static constexpr int kNoMore = -1;
};

// Writes a place to shared memory.
//
// Uses exchanges: mbarriers order plain stores just as well, but
// compute-sanitizer does not follow a wait for a phase into a loop.
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
