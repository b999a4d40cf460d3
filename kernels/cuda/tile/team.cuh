// Teams of eight warps, and the tiles of 128 x 128 elements in shared memory
// that they work on.
#ifndef QUANTD_KERNELS_CUDA_TILE_TEAM_CUH_
#define QUANTD_KERNELS_CUDA_TILE_TEAM_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/args.h"
#include "kernels/cuda/tile/element.cuh"

namespace quantd::cuda {

// A tile of elements of 2 or 4 bytes, in the layout of the copy engine. Must be
// aligned to 1024 bytes, as the start of shared memory is.
template <int kBytes>
struct StagedTileOf {
  alignas(128) std::byte bytes[kTileSide * kTileSide * kBytes];
};
using StagedTile = StagedTileOf<2>;

// The offset of an element in bytes. A tile is kBytes boxes, each with 128
// bytes of every row. Pieces of 16 bytes are swizzled to avoid bank conflicts.
inline constexpr int kTileBox = kTileSide * 128;
template <int kBytes = 2>
__device__ __forceinline__ int TileOffset(int row, int col) {
  constexpr int kAcross = 128 / kBytes;
  constexpr int kPiece = 16 / kBytes;
  const int piece = col % kAcross / kPiece;
  return col / kAcross * kTileBox + row * 128 + ((piece ^ (row % 8)) * 16) +
         col % kPiece * kBytes;
}

inline constexpr int kSquares = kTileSide / kBlock;  // blocks along a side of a
                                                     // tile

// Eight warps of a CTA that work on a tile together; each warp takes sixteen of
// its lines.
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
  // Synchronizes warps 2i and 2i + 1 of the team.
  static __device__ __forceinline__ void SyncPair() {
    constexpr uint32_t kMostTeams = 3;
    const uint32_t pair = number() * (kWarps / 2) + warp() / 2;
    asm volatile("barrier.cta.sync %0, %1;" ::"r"(1 + kMostTeams + pair),
                 "n"(2 * kWarp)
                 : "memory");
  }
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_TEAM_CUH_
