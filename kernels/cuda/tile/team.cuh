// Teams of eight warps, and the tiles of 128 x 128 bf16 in shared memory that
// they work on.
#ifndef QUANTD_KERNELS_CUDA_TILE_TEAM_CUH_
#define QUANTD_KERNELS_CUDA_TILE_TEAM_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/args.h"
#include "kernels/cuda/tile/element.cuh"

namespace quantd::cuda {

// A tile as the copy engine leaves it. It must be aligned to 1024 bytes, which
// the first thing in shared memory is.
struct StagedTile {
  alignas(128) std::byte bytes[kTileSide * kTileSide * 2];
};
// The offset of an element in bytes. Tiles are two boxes of 64 columns,
// whose rows' pieces of 16 bytes are exchanged, for the banks.
inline constexpr int kTileBox = kTileSide * 128;
__device__ __forceinline__ int TileOffset(int row, int col) {
  const int piece = col % 64 / 8;
  return col / 64 * kTileBox + row * 128 + ((piece ^ (row % 8)) * 16) +
         col % 8 * 2;
}

inline constexpr int kSquares = kTileSide / kBlock;  // blocks of a tile

// Eight warps of a CTA that work on a tile together, a warp sixteen of its
// lines.
struct Team {
  static constexpr int kWarps = kThreads / kWarp;
  static_assert(kWarps == kSquares);

  static __device__ __forceinline__ uint32_t number() {
    return threadIdx.x / kThreads;
  }
  static __device__ __forceinline__ uint32_t thread() {
    return threadIdx.x % kThreads;
  }
  static __device__ __forceinline__ uint32_t warp() { return thread() / kWarp; }
  static __device__ __forceinline__ void Sync() {
    asm volatile("bar.sync %0, %1;" ::"r"(number() + 1), "n"(kThreads)
                 : "memory");
  }
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_TEAM_CUH_
