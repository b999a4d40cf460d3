// Tiles of 128 x 128 bf16 on their way into shared memory while a CTA works on
// earlier ones: by the tensor copy engine (sm_90 and later), by asynchronous
// copies of 16 bytes elsewhere.
#ifndef QUANTD_KERNELS_CUDA_STAGED_TILE_CUH_
#define QUANTD_KERNELS_CUDA_STAGED_TILE_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/span.cuh"
#include "kernels/cuda/tensor_map.h"

namespace quantd::cuda {

struct StagedTile {
  static constexpr int kPitch = kTileSide * 2;
  alignas(1024) std::byte bytes[kTileSide * kPitch];

  // Of TileLayout::kPlain.
  __device__ __forceinline__ std::byte* at(int row, int col) {
    return bytes + row * kPitch + col * 2;
  }
  __device__ __forceinline__ const std::byte* at(int row, int col) const {
    return bytes + row * kPitch + col * 2;
  }
};
// Of TileLayout::kSwizzled: two boxes of 64 columns, and an element's place.
inline constexpr int kSwizzledBox = kTileSide * 128;
__device__ __forceinline__ int SwizzledOffset(int row, int col) {
  const int piece = col % 64 / 8;
  return col / 64 * kSwizzledBox + row * 128 + ((piece ^ (row % 8)) * 16) +
         col % 8 * 2;
}

// A chunk of 128 rows: its group, and its number there.
struct Chunk {
  int64_t group;
  int64_t number;

  __device__ __forceinline__ Chunk(const GroupList& list, int64_t chunk)
      : group(0), number(chunk) {
    if (list.count == 1) return;
    group = FindEntry(list.chunks, list.count, chunk);
    number -= list.chunks[group];
  }
};

// Where a tile is and how much of it there is. All rows together are fewer than
// 2^31.
struct Place {
  int64_t group;
  uint32_t chunk;      // of the group
  uint32_t row, col;   // of the group
  int rows, cols;      // 1 to 128
  uint32_t in_payload;  // its first row
};
// `first` is group 0.
__device__ __forceinline__ Place FindPlace(const GroupList& list,
                                           const GroupTask& first,
                                           uint32_t tile) {
  const auto across = static_cast<uint32_t>(TilesAcross(list));
  const Chunk chunk(list, tile / across);
  const bool alone = list.count == 1;
  const GroupTask& task = alone ? first : list.groups[chunk.group];
  Place at;
  at.group = chunk.group;
  at.chunk = static_cast<uint32_t>(chunk.number);
  at.row = at.chunk * kTileSide;
  at.col = tile % across * kTileSide;
  const int64_t rows = task.rows - at.row;
  const int64_t cols = list.cols - at.col;
  at.rows = static_cast<int>(rows < kTileSide ? rows : kTileSide);
  at.cols = static_cast<int>(cols < kTileSide ? cols : kTileSide);
  at.in_payload = static_cast<uint32_t>(task.row + at.row);
  return at;
}

// kStages tiles: those that a CTA will come to, in a ring. Columns of the
// matrix are a multiple of 16. One warp finds out where tiles are and starts
// their copies; the others have it from shared memory.
template <int kStages, TileLayout kLayout = TileLayout::kPlain>
class TileRing {
 public:
  struct Storage {
    StagedTile tiles[kStages];
    // Those of tiles that have gone stay for as many tiles again.
    Place places[2 * kStages];
    alignas(8) uint64_t full[kStages];
  };

  // All threads must call this, and what follows.
  __device__ __forceinline__ explicit TileRing(Storage* storage)
      : storage_(storage) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      for (int s = 0; s < kStages; ++s) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(
            Address(&storage_->full[s])));
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
#endif
    __syncthreads();
  }

  // Starts the copy of the CTA's tile number `k`, which is `tile` of the list,
  // if the list has it. Nobody may still be at number k - kStages. A barrier
  // has to pass before number k is waited for. `map` is of the whole payload.
  __device__ __forceinline__ void Start(uint32_t k, const GroupList& list,
                                        const GroupTask& first,
                                        const TensorMap& map, uint32_t tile) {
    if (tile >= static_cast<uint32_t>(TileCount(list))) return;
    Find(k, list, first, tile);
    Copy(k, list, first, map);
  }
  // The same in two steps, of a tile that the list has. Finding where it is
  // takes its time: somebody may still be at number k - kStages.
  __device__ __forceinline__ void Find(uint32_t k, const GroupList& list,
                                       const GroupTask& first, uint32_t tile) {
    if (threadIdx.x != 0) return;
    storage_->places[k % (2 * kStages)] = FindPlace(list, first, tile);
  }
  __device__ __forceinline__ void Copy(uint32_t k, const GroupList& list,
                                       const GroupTask& first,
                                       const TensorMap& map) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x != 0) return;
    const Place& at = place(k);
    const uint32_t full = Address(&storage_->full[k % kStages]);
    // What lies beyond the payload counts, too: it comes as zeros.
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full),
        "n"(sizeof(StagedTile))
        : "memory");
    const uint32_t to = Address(storage_->tiles[k % kStages].bytes);
    const int col = static_cast<int>(at.col);
    const int row = static_cast<int>(at.in_payload);
    CopyBox(to, map, col, row, full);
    if constexpr (kLayout == TileLayout::kSwizzled) {
      CopyBox(to + kSwizzledBox, map, col + 64, row, full);
    }
#else
    __syncthreads();  // the place is known
    const Place& at = place(k);
    const std::byte* from =
        first.x + (int64_t{at.in_payload} * list.cols + at.col) * 2;
    const int pieces = at.cols / 8;
    for (int i = static_cast<int>(threadIdx.x); i < at.rows * pieces;
         i += static_cast<int>(blockDim.x)) {
      const int r = i / pieces;
      const int piece = i - r * pieces;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(Address(
                       At(&storage_->tiles[k % kStages], r, piece * 8))),
                   "l"(from + r * list.cols * 2 + piece * 16)
                   : "memory");
    }
#endif
  }

  // Where tile number `k` is.
  __device__ __forceinline__ const Place& place(uint32_t k) const {
    return storage_->places[k % (2 * kStages)];
  }

  // Waits for tile number `k`. There are zeros below its rows and to the right
  // of its columns. `alone`: the list has one group.
  __device__ __forceinline__ StagedTile& Wait(uint32_t k, bool alone) {
    StagedTile& tile = storage_->tiles[k % kStages];
#if __CUDA_ARCH__ >= 900
    const uint32_t full = Address(&storage_->full[k % kStages]);
    const uint32_t parity = k / kStages % 2;
    uint32_t done = 0;
    while (done == 0) {
      asm volatile(
          "{ .reg .pred p;"
          " mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
          " selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(full), "r"(parity)
          : "memory");
    }
#else
    // (Those of later tiles are waited for, too.)
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
#endif
    ZeroRest(alone, place(k), &tile);
    return tile;
  }

 private:
  static __device__ __forceinline__ uint32_t Address(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
  }
  static __device__ __forceinline__ std::byte* At(StagedTile* tile, int row,
                                                  int col) {
    return kLayout == TileLayout::kPlain
               ? tile->at(row, col)
               : tile->bytes + SwizzledOffset(row, col);
  }
  static __device__ __forceinline__ void CopyBox(uint32_t to,
                                                 const TensorMap& map, int col,
                                                 int row, uint32_t full) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
        ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(&map), "r"(col), "r"(row), "r"(full)
        : "memory");
  }

  __device__ __forceinline__ void ZeroRest(bool alone, const Place& at,
                                           StagedTile* tile) {
#if __CUDA_ARCH__ >= 900
    // The copy engine has left zeros beyond the payload; but other groups may
    // follow this one.
    if (alone || at.rows == kTileSide) return;
#else
    if (at.rows == kTileSide && at.cols == kTileSide) return;
#endif
    constexpr int kPieces = kTileSide / 8;
    for (int i = static_cast<int>(threadIdx.x); i < kTileSide * kPieces;
         i += static_cast<int>(blockDim.x)) {
      const int row = i / kPieces;
      const int col = i % kPieces * 8;
      if (row < at.rows && col < at.cols) continue;
      *reinterpret_cast<uint4*>(At(tile, row, col)) = make_uint4(0, 0, 0, 0);
    }
#if __CUDA_ARCH__ >= 900
    // Before the copy engine writes here again.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    __syncthreads();
  }

  Storage* const storage_;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_STAGED_TILE_CUH_
