// A tile of a matrix in shared memory, for kernels with columnwise blocks.
// Threads access it in two ways: as blocks of a row, which they load or store
// in words of 16 bytes, and as blocks of 16 rows of a column.
#ifndef QUANTD_KERNELS_CUDA_TILE_TILE_CUH_
#define QUANTD_KERNELS_CUDA_TILE_TILE_CUH_

#include "kernels/cuda/tile/element.cuh"

namespace quantd::cuda {

inline constexpr int kTileRows = 128;
inline constexpr int kTileCols = 64;
inline constexpr int kRowBlocks = kTileCols / kBlock;  // blocks along a row
inline constexpr int kColBlocks = kTileRows / kBlock;  // blocks along a column
// Row blocks of a thread, which has as many column blocks.
inline constexpr int kPerThread = kTileRows * kRowBlocks / kThreads;
static_assert(kPerThread == kTileCols * kColBlocks / kThreads);

struct TileGrid {
  int64_t across;  // tiles in a row of the matrix
  int64_t count;

  __host__ __device__ TileGrid(int64_t rows, int64_t cols)
      : across((cols + kTileCols - 1) / kTileCols),
        count((rows + kTileRows - 1) / kTileRows * across) {}
  __device__ int64_t row(int64_t tile) const {
    return tile / across * kTileRows;
  }
  __device__ int64_t col(int64_t tile) const {
    return tile % across * kTileCols;
  }
};

template <DType D>
struct SharedTile {
  static constexpr int kSize = kSizeOf<D>;
  // 16 bytes of padding put the wide accesses of consecutive rows into
  // different banks.
  static constexpr int kPitch = kTileCols * kSize + 16;
  alignas(16) std::byte bytes[kTileRows * kPitch];

  __device__ std::byte* at(int row, int col) {
    return bytes + row * kPitch + col * kSize;
  }
};

// The row blocks of this thread: block i is row `row(i)` of the tile and
// columns col() to col() + 15.
struct RowSlot {
  static __device__ int row(int i) {
    return (threadIdx.x + i * kThreads) / kRowBlocks;
  }
  static __device__ int col() { return threadIdx.x % kRowBlocks * kBlock; }
};
// The column blocks of this thread: block i is column col() and rows from 16 *
// block(i) on. Neighbouring lanes have neighbouring columns.
struct ColSlot {
  static __device__ int block(int i) {
    return (threadIdx.x + i * kThreads) / kTileCols;
  }
  static __device__ int col() { return threadIdx.x % kTileCols; }
};

// Loads a block at (row, col) of x, with zeros beyond the edges.
template <DType D>
__device__ __forceinline__ RawBlock<D> LoadBlockAt(const Matrix& x, int64_t row,
                                                   int64_t col) {
  const int64_t count = row < x.rows ? x.cols - col : 0;
  if (count <= 0) return {};
  const std::byte* p = x.data + (row * x.cols + col) * kSizeOf<D>;
  const bool aligned = x.cols * kSizeOf<D> % 16 == 0;
  if (count >= kBlock && aligned) return LoadBlock<D>(p);
  return LoadPart<D>(p, count);
}

// Loads this thread's row blocks of the tile at (row, col).
template <DType D>
__device__ __forceinline__ void LoadTile(const Matrix& x, int64_t row,
                                         int64_t col,
                                         RawBlock<D> (&raw)[kPerThread]) {
  QUANTD_UNROLL
  for (int i = 0; i < kPerThread; ++i) {
    raw[i] = LoadBlockAt<D>(x, row + RowSlot::row(i), col + RowSlot::col());
  }
}

// Loads this thread's column block i from shared memory.
template <DType D>
__device__ __forceinline__ void LoadColumn(SharedTile<D>& tile, int i,
                                           float (&v)[kBlock]) {
  QUANTD_UNROLL
  for (int j = 0; j < kBlock; ++j) {
    v[j] = DecodeElement<D>(
        LoadBits<D>(tile.at(ColSlot::block(i) * kBlock + j, ColSlot::col())));
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_TILE_CUH_
