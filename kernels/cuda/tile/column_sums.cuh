// Sums of the columns of a tile in shared memory, for dbias.
#ifndef QUANTD_KERNELS_CUDA_TILE_COLUMN_SUMS_CUH_
#define QUANTD_KERNELS_CUDA_TILE_COLUMN_SUMS_CUH_

#include <type_traits>

#include "kernels/cuda/ptx/shared_memory.cuh"
#include "kernels/cuda/tile/packed.cuh"
#include "kernels/cuda/tile/stream.cuh"

namespace quantd::cuda {

// Adds up the columns of a tile of elements D, in ascending order of rows.
// Stores the sums in `partial`, which has a row of sums for each 128 rows of
// the group. All threads of the team must call this. Two warps do the work;
// `turn` selects them.
template <DType D>
__device__ __forceinline__ void SumColumns(const StagedTileOf<kSizeOf<D>>& tile,
                                           const Place& at, int64_t cols,
                                           float* partial, unsigned turn) {
  constexpr int kBytes = kSizeOf<D>;
  using Pair = std::conditional_t<kBytes == 2, uint32_t, uint2>;
  const unsigned thread = (Team::thread() + turn * (kTileSide / 2)) % kThreads;
  const int column = 2 * static_cast<int>(thread);
  if (column >= at.cols) return;
  float low = 0.0f;
  float high = 0.0f;
  const auto add = [&](const Pair& pair) {
    if constexpr (kBytes == 2) {
      low = low + LowOf<D>(pair);
      high = high + HighOf<D>(pair);
    } else {
      low = low + __uint_as_float(pair.x);
      high = high + __uint_as_float(pair.y);
    }
  };
  // The address of the column's element in row 0. Rows r + i have the swizzle
  // of row i if r is a multiple of eight.
  const uint32_t first =
      SharedAddress(tile.bytes + TileOffset<kBytes>(0, column));
  const auto load = [&](int r, int i) {
    const uint32_t from = (first ^ i * 16) + r * 128 + i * 128;
    if constexpr (kBytes == 2) {
      return LoadShared(from);
    } else {
      return LoadShared2(from);
    }
  };
  int r = 0;
#pragma unroll 2
  for (; r + 8 <= at.rows; r += 8) {
    Pair pairs[8];
    QUANTD_UNROLL
    for (int i = 0; i < 8; ++i) pairs[i] = load(r, i);
    QUANTD_UNROLL
    for (int i = 0; i < 8; ++i) add(pairs[i]);
  }
  for (int i = 0; r + i < at.rows; ++i) add(load(r, i));
  *reinterpret_cast<float2*>(partial + int64_t{at.chunk} * cols + at.col +
                             column) = make_float2(low, high);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_COLUMN_SUMS_CUH_
