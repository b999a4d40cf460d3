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

// Two boxes of 64 columns, each with 128 bytes a row, whose pieces of 16 bytes
// are exchanged so that pieces one below another are in other banks.
struct StagedTile {
  static constexpr int kBoxCols = 64;
  static constexpr int kBox = kTileSide * kBoxCols * 2;  // bytes

  alignas(1024) std::byte bytes[kTileSide * kTileSide * 2];

  static __device__ __forceinline__ int Offset(int row, int col) {
    const int piece = col % kBoxCols / 8;
    return col / kBoxCols * kBox + row * 128 + ((piece ^ (row % 8)) * 16) +
           col % 8 * 2;
  }
  __device__ __forceinline__ const std::byte* at(int row, int col) const {
    return bytes + Offset(row, col);
  }
  __device__ __forceinline__ std::byte* at(int row, int col) {
    return bytes + Offset(row, col);
  }
};

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

// Where a tile is and how much of it there is.
struct Place {
  int64_t group;
  int64_t chunk;       // of the group
  int64_t row, col;    // of the group
  int rows, cols;      // 1 to 128
  int64_t in_payload;  // its first row
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
  at.chunk = chunk.number;
  at.row = chunk.number * kTileSide;
  at.col = int64_t{tile % across} * kTileSide;
  const int64_t rows = task.rows - at.row;
  const int64_t cols = list.cols - at.col;
  at.rows = static_cast<int>(rows < kTileSide ? rows : kTileSide);
  at.cols = static_cast<int>(cols < kTileSide ? cols : kTileSide);
  at.in_payload = task.row + at.row;
  return at;
}

// kStages tiles: the next ones of those that a CTA comes to, in a ring. Its
// number k is the list's tile blockIdx.x + k * gridDim.x. Columns of the matrix
// are a multiple of 16. Warps go through the ring each at its own pace: the
// last one to leave a tile starts the copy of the one that takes its place.
template <int kStages>
class TileRing {
 public:
  struct Storage {
    StagedTile tiles[kStages];
    Place places[kStages];
    alignas(8) uint64_t full[kStages];
    uint32_t left[kStages];  // warps that have left the tile
  };

  // All threads must call this, and what follows. `first` is group 0; `map` is
  // of the whole payload.
  __device__ __forceinline__ TileRing(Storage* storage, const GroupList& list,
                                      const GroupTask& first,
                                      const TensorMap& map)
      : storage_(storage), list_(list), first_(first), map_(map) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      for (int s = 0; s < kStages; ++s) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(
            Address(&storage_->full[s])));
        storage_->left[s] = 0;
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      for (uint32_t k = 0; k < kStages; ++k) Start(k);
    }
#endif
    __syncthreads();
  }

  // Where tile number `k` is, between Acquire and Release.
  __device__ __forceinline__ const Place& place(uint32_t k) const {
    return storage_->places[k % kStages];
  }

  // Waits for tile number `k`, which the list has. There are zeros below its
  // rows and to the right of its columns.
  __device__ __forceinline__ const StagedTile& Acquire(uint32_t k) {
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
    __syncthreads();
    Start(k);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
#endif
    ZeroRest(place(k), &tile);
    return tile;
  }

  // This warp needs tile number `k` no more.
  __device__ __forceinline__ void Release(uint32_t k) {
    __syncwarp();
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x % 32 != 0) return;
    __threadfence_block();
    uint32_t* const left = &storage_->left[k % kStages];
    if (atomicAdd(left, 1u) + 1 != blockDim.x / 32) return;
    *left = 0;
    __threadfence_block();
    Start(k + kStages);
#endif
  }

 private:
  static __device__ __forceinline__ uint32_t Address(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
  }

  // Starts the copy of tile number `k`, if the list has it, where nobody is
  // reading: one thread, or before sm_90 all.
  __device__ __forceinline__ void Start(uint32_t k) {
    const uint32_t tile = blockIdx.x + k * gridDim.x;
    if (tile >= static_cast<uint32_t>(TileCount(list_))) return;
    const Place at = FindPlace(list_, first_, tile);
    StagedTile& staged = storage_->tiles[k % kStages];
#if __CUDA_ARCH__ >= 900
    storage_->places[k % kStages] = at;
    const uint32_t full = Address(&storage_->full[k % kStages]);
    // What lies beyond the payload counts, too: it comes as zeros.
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full),
        "n"(sizeof(StagedTile))
        : "memory");
    const uint32_t to = Address(staged.bytes);
    const int col = static_cast<int>(at.col);
    const int row = static_cast<int>(at.in_payload);
    Copy(to, col, row, full);
    Copy(to + StagedTile::kBox, col + StagedTile::kBoxCols, row, full);
#else
    if (threadIdx.x == 0) storage_->places[k % kStages] = at;
    const std::byte* from =
        first_.x + (at.in_payload * list_.cols + at.col) * 2;
    const int pieces = at.cols / 8;
    for (int i = static_cast<int>(threadIdx.x); i < at.rows * pieces;
         i += static_cast<int>(blockDim.x)) {
      const int r = i / pieces;
      const int piece = i - r * pieces;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                       Address(staged.at(r, piece * 8))),
                   "l"(from + r * list_.cols * 2 + piece * 16)
                   : "memory");
    }
#endif
  }

  __device__ __forceinline__ void Copy(uint32_t to, int col, int row,
                                       uint32_t full) const {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
        ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(&map_), "r"(col), "r"(row), "r"(full)
        : "memory");
  }

  __device__ __forceinline__ void ZeroRest(const Place& at, StagedTile* tile) {
#if __CUDA_ARCH__ >= 900
    // The copy engine has left zeros beyond the payload; but other groups may
    // follow this one.
    if (list_.count == 1 || at.rows == kTileSide) return;
#else
    if (at.rows == kTileSide && at.cols == kTileSide) return;
#endif
    constexpr int kPieces = kTileSide / 8;
    for (int i = static_cast<int>(threadIdx.x); i < kTileSide * kPieces;
         i += static_cast<int>(blockDim.x)) {
      const int row = i / kPieces;
      const int col = i % kPieces * 8;
      if (row < at.rows && col < at.cols) continue;
      *reinterpret_cast<uint4*>(tile->at(row, col)) = make_uint4(0, 0, 0, 0);
    }
#if __CUDA_ARCH__ >= 900
    // Before the copy engine writes here again.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    __syncthreads();
  }

  Storage* const storage_;
  const GroupList& list_;
  const GroupTask& first_;
  const TensorMap& map_;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_STAGED_TILE_CUH_
