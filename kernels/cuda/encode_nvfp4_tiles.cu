// NVFP4 by tiles of 128 x 128: the columnwise copy, both copies, squares, and
// whatever goes with sums of columns. A tile is read once into shared memory,
// ahead of its use. Of each tile a warp has eight columns and eight rows, so
// that codes leave in whole sectors, straight from registers.
#include "kernels/cuda/encode_nvfp4.cuh"
#include "kernels/cuda/nvfp4.h"
#include "kernels/cuda/rotate.cuh"

namespace quantd::cuda {
namespace {

constexpr int kTileThreads = 512;
constexpr int kPerMultiprocessor = 2;
constexpr int kStages = 2;
constexpr int kSquares = kTileSide / kBlock;  // blocks of a tile, either way
constexpr int kStrip = 8;                     // columns, and rows, of a warp
constexpr int kPairs = kTileSide / 2;         // of columns
static_assert(kStrip * kTileThreads / kWarp == kTileSide);

enum class Copying { kNone, kPlain, kRotated };

// Largest magnitudes of a tile's squares, fp32 bits, NaN above Inf, and with
// NaN dropped.
struct SquareMaxima {
  uint32_t max[kSquares][kSquares];
  uint32_t clean[kSquares][kSquares];
};

using Ring = TileRing<kStages>;

struct Shared {
  Ring::Storage ring;
  GroupStateWith<Lines> group;
  SquareMaxima squares[2];  // of every other tile
  Exchange exchange[kTileThreads / kWarp];
};

// What a warp knows at a tile.
struct Warp {
  const EncodeArgs& a;
  const Rotation& rotation;
  const StagedTile& tile;
  const Place& at;
  const SquareMaxima& squares;
  Shared& s;
  int first = static_cast<int>(threadIdx.x) / kWarp * kStrip;  // row, or column
  int lane = static_cast<int>(threadIdx.x) % kWarp;
};

// Of 32 blocks in a tile: where block b is, and its element i.
template <bool kColumns>
struct Blocks {
  int strip;  // the eight columns (rows) they are in
  int part;   // which of the strip's two times four blocks

  __device__ __forceinline__ int line(int b) const { return strip + b % 8; }
  __device__ __forceinline__ int number(int b) const {
    return part * 4 + b / 8;
  }
  __device__ __forceinline__ const std::byte* at(const StagedTile& tile, int b,
                                                 int i) const {
    const int position = number(b) * kBlock + i;
    return kColumns ? tile.at(position, line(b)) : tile.at(line(b), position);
  }
  // Parts for the tensor cores. A lane names one row of four pieces: those of
  // the first eight blocks' first halves, the next eight blocks', and the same
  // of second halves.
  __device__ __forceinline__ void LoadParts(const StagedTile& tile, int lane,
                                            uint32_t (&x)[2][4]) const {
    const int half = lane / 16 * 8;
    const int b = lane / 8 % 2 * 8;
    const std::byte* p =
        kColumns ? tile.at(number(b) * kBlock + half + lane % 8, strip)
                 : tile.at(strip + lane % 8, number(b) * kBlock + half);
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(p));
    LoadPieces<kColumns>(address, x[0]);
    // Two blocks further on: 32 rows, or four pieces of the eight in 128 bytes.
    LoadPieces<kColumns>(kColumns ? address + 32 * 128 : address ^ 64, x[1]);
  }
};

// Parts of 32 columns as LoadParts has them, into whole blocks.
__device__ __forceinline__ Words Join(const uint32_t (&x)[2][4],
                                      Exchange* exchange) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  __syncwarp();  // the blocks before have been read
  QUANTD_UNROLL
  for (int k = 0; k < 8; ++k) {
    const int b = 16 * (k / 4) + 8 * (k % 2) + lane / 4;
    reinterpret_cast<uint32_t*>(exchange->half(b, k / 2 % 2))[lane % 4] =
        x[k / 4][k % 4];
  }
  __syncwarp();
  return exchange->block(lane);
}

template <bool kColumns>
__device__ __forceinline__ Words LoadAgain(const StagedTile& tile,
                                           const Blocks<kColumns>& blocks,
                                           int b) {
  Words x;
  QUANTD_UNROLL
  for (int i = 0; i < kBlock / 2; ++i) {
    const auto low =
        *reinterpret_cast<const uint16_t*>(blocks.at(tile, b, 2 * i));
    const auto high =
        *reinterpret_cast<const uint16_t*>(blocks.at(tile, b, 2 * i + 1));
    x.w[i] = low | static_cast<uint32_t>(high) << 16;
  }
  return x;
}

// A block of a square for the generic functions.
__device__ __noinline__ Unit EncodeRareOfSquare(const EncodeParams& p, Words x,
                                                float amax, uint32_t max,
                                                uint32_t clean) {
  float v[kBlock];
  Unpack(x, v);
  const LineScale<Scalar> line = MakeLineScale<Scalar>(p, amax, 1.0f);
  const BlockScale<Scalar> scale = MakeBlockScale<Scalar>(p, line, max, clean);
  uint32_t words[4];
  EncodeSixteen<Scalar>(p, v, scale.m, nullptr, words);
  return {make_uint2(words[0], words[1]), scale.stored};
}

// 32 blocks; and whether this lane's is one for the generic functions.
template <Copying kCopying, bool kSquare, bool kColumns>
__device__ __forceinline__ Unit EncodeBlocks(const Warp& w, const Lines& lines,
                                             const Blocks<kColumns>& blocks,
                                             bool* rare) {
  Exchange* const exchange = &w.s.exchange[w.first / kStrip];
  Words x;
  uint32_t max;
  if constexpr (kCopying == Copying::kRotated) {
    uint32_t parts[2][4];
    blocks.LoadParts(w.tile, w.lane, parts);
    const auto element = [blocks, tile = &w.tile](int b, int i) {
      return LowOf(*reinterpret_cast<const uint16_t*>(blocks.at(*tile, b, i)));
    };
    x = Rotate(parts, w.rotation, w.a.signs, element, exchange, &max);
  } else {
    if constexpr (kColumns) {
      uint32_t parts[2][4];
      blocks.LoadParts(w.tile, w.lane, parts);
      x = Join(parts, exchange);
    } else {
      const auto low =
          *reinterpret_cast<const uint4*>(blocks.at(w.tile, w.lane, 0));
      const auto high =
          *reinterpret_cast<const uint4*>(blocks.at(w.tile, w.lane, 8));
      x = {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
    }
    if constexpr (!kSquare) max = LargerHalf(LargestOf(x.w));
  }
  const int along = blocks.line(w.lane) / kBlock;
  const int number = blocks.number(w.lane);
  const int row = kColumns ? number : along;
  const int col = kColumns ? along : number;
  if constexpr (kSquare) max = w.squares.max[row][col];
  const float wanted = __uint_as_float(max) * lines.s_inv6;
  Unit unit;
  unit.scale = E4M3Of(wanted);
  unit.codes = CodesOf(x, lines.of[unit.scale]);
  *rare = IsRare(max, wanted);
  return unit;
}

// Largest magnitude of a square, four words a lane; NaN dropped where `clean`.
__device__ __forceinline__ uint32_t SquareMaximum(const uint32_t (&w)[4],
                                                  bool clean) {
  uint32_t max = LargerHalf(LargestOf(w));
  if (clean) {
    max = 0;
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t low = (w[i] << 16) & kAbsMask;
      const uint32_t high = w[i] & 0x7FFF0000u;
      if (low <= kInfBits && low > max) max = low;
      if (high <= kInfBits && high > max) max = high;
    }
  }
  return __reduce_max_sync(0xFFFFFFFFu, max);
}

// Four squares a warp.
__device__ __forceinline__ void FindSquares(const EncodeArgs& a,
                                            const StagedTile& tile,
                                            SquareMaxima* squares) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = static_cast<int>(threadIdx.x) / kWarp / 2;
  const int col = static_cast<int>(threadIdx.x) / kWarp % 2 * 4;
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(
      tile.at(row * kBlock + lane % 16, col * kBlock + lane / 16 * 8)));
  uint32_t seen = 0;
  QUANTD_UNROLL
  for (int c = 0; c < 4; ++c) {
    uint32_t w[4];
    LoadPieces<false>(address ^ (c * 32), w);
    const uint32_t max = SquareMaximum(w, false);
    uint32_t clean = max;
    if (max >= kInfBits) {
      clean = SquareMaximum(w, true);
      seen |= SeenIn(max, clean);
    }
    squares->max[row][col + c] = max;
    squares->clean[row][col + c] = clean;
  }
  if (seen != 0) Report(seen, a.seen);
}

// Where a block's unit goes, if the copy has it.
template <bool kColumns>
__device__ __forceinline__ void Store(const Warp& w,
                                      const Blocks<kColumns>& blocks,
                                      const Unit& unit) {
  const GroupTask& task = w.s.group.task;
  const CopyTask& copy = kColumns ? task.columnwise : task.rowwise;
  const int64_t first_line = kColumns ? w.at.col : w.at.row;
  const int lines = kColumns ? w.at.cols : w.at.rows;
  const int64_t block =
      (kColumns ? w.at.row : w.at.col) / kBlock + blocks.number(w.lane);
  const int line = blocks.line(w.lane);
  // (Blocks of columns beyond the matrix are zeros, as padding is.)
  const int64_t count = (kColumns ? copy.padded : w.a.list.cols) / kBlock;
  if (line >= lines || block >= count) return;
  std::byte* const to = copy.data + (first_line + line) * copy.data_line;
  *reinterpret_cast<uint2*>(to + block * 8) = unit.codes;
  const ScaleColumn scales(copy, first_line, block);
  *scales.at(line) = static_cast<std::byte>(unit.scale);
}

// The warp's part of a copy. Bit p is set where block p is a rare one.
template <Copying kCopying, bool kSquare, bool kColumns>
__device__ __forceinline__ uint32_t EncodeCopy(const Warp& w) {
  const Lines& lines = kColumns ? w.s.group.col : w.s.group.row;
  uint32_t bits = 0;
#pragma unroll 1
  for (int part = 0; part < 2; ++part) {
    const Blocks<kColumns> blocks = {w.first, part};
    bool rare;
    const Unit unit = EncodeBlocks<kCopying, kSquare>(w, lines, blocks, &rare);
    Store(w, blocks, unit);
    bits |= rare ? 1u << part : 0u;
  }
  return bits;
}

// Those again, by the generic functions.
template <Copying kCopying, bool kSquare, bool kColumns>
__device__ __noinline__ void EncodeAgain(Warp w, uint32_t bits) {
  const GroupTask& task = w.s.group.task;
  const float amax = kColumns ? *task.columnwise.amax : *task.rowwise.amax;
  for (int part = 0; part < 2; ++part) {
    if ((bits >> part & 1u) == 0) continue;
    const Blocks<kColumns> blocks = {w.first, part};
    const Words x = LoadAgain(w.tile, blocks, w.lane);
    const int along = blocks.line(w.lane) / kBlock;
    const int number = blocks.number(w.lane);
    const int row = kColumns ? number : along;
    const int col = kColumns ? along : number;
    Store(w, blocks,
          kSquare
              ? EncodeRareOfSquare(w.a.params, x, amax, w.squares.max[row][col],
                                   w.squares.clean[row][col])
              : EncodeRare(w.a.params, x,
                           kCopying == Copying::kRotated ? w.a.signs : nullptr,
                           amax, nullptr, w.a.seen));
  }
}

// Sums of the columns of a tile, rows ascending: a thread is two columns.
__device__ __forceinline__ void SumColumns(const StagedTile& tile,
                                           const Place& at, int64_t cols,
                                           const GroupTask& task,
                                           unsigned thread) {
  const int column = 2 * static_cast<int>(thread);
  if (column >= at.cols) return;
  float low = 0.0f;
  float high = 0.0f;
#pragma unroll 16
  for (int r = 0; r < at.rows; ++r) {
    const uint32_t word =
        *reinterpret_cast<const uint32_t*>(tile.at(r, column));
    low = low + LowOf(word);
    high = high + HighOf(word);
  }
  *reinterpret_cast<float2*>(task.partial + at.chunk * cols + at.col + column) =
      make_float2(low, high);
}

template <Copying kRow, Copying kCol, bool kSquare>
__global__ void __launch_bounds__(kTileThreads, kPerMultiprocessor)
    EncodeNvfp4Tiles(const __grid_constant__ EncodeArgs a,
                     const __grid_constant__ TensorMap map) {
  extern __shared__ __align__(1024) std::byte shared[];
  Shared& s = *reinterpret_cast<Shared*>(shared);
  Ring ring(&s.ring, a.list, a.first, map);
  const Rotation rotation(a.signs, false);
  int64_t current = -1;
  const auto count = static_cast<uint32_t>(TileCount(a.list));
  uint32_t k = 0;
  for (uint32_t t = blockIdx.x; t < count; t += gridDim.x, ++k) {
    const StagedTile& tile = ring.Acquire(k);
    const Place& at = ring.place(k);
    if (s.group.Enter(a, at.group, &current)) s.group.Settle(a);
    SquareMaxima& squares = s.squares[k % 2];
    if constexpr (kSquare) {
      FindSquares(a, tile, &squares);
      __syncthreads();
    }
    const GroupTask& task = s.group.task;
    const Warp warp = {a, rotation, tile, at, squares, s};
    if (kCol != Copying::kNone && (!kSquare || task.columnwise.data)) {
      const uint32_t rare = EncodeCopy<kCol, kSquare, true>(warp);
      if (rare != 0) EncodeAgain<kCol, kSquare, true>(warp, rare);
    }
    if (kRow != Copying::kNone && (!kSquare || task.rowwise.data)) {
      const uint32_t rare = EncodeCopy<kRow, kSquare, false>(warp);
      if (rare != 0) EncodeAgain<kRow, kSquare, false>(warp, rare);
    }
    // Two warps' work, others at each tile.
    if (a.dbias) {
      SumColumns(tile, at, a.list.cols, task,
                 (threadIdx.x + t * kPairs) % kTileThreads);
    }
    ring.Release(k);
  }
}

template <Copying kRow, Copying kCol, bool kSquare>
cudaError_t Launch(const EncodeArgs& a, const Queue& queue) {
  const auto kernel = &EncodeNvfp4Tiles<kRow, kCol, kSquare>;
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(sizeof(Shared)));
  if (error != cudaSuccess) return error;
  TensorMap map;
  error = MakeTensorMap(a.first.x, a.list.rows, a.list.cols, &map);
  if (error != cudaSuccess) return error;
  kernel<<<GridFor(TileCount(a.list), kPerMultiprocessor, queue), kTileThreads,
           sizeof(Shared), queue.stream>>>(a, map);
  return cudaGetLastError();
}

template <Copying kRow>
cudaError_t LaunchFor(const EncodeArgs& a, const Queue& queue) {
  if constexpr (kRow != Copying::kNone) {
    if (a.first.columnwise.data == nullptr) {
      return Launch<kRow, Copying::kNone, false>(a, queue);
    }
  }
  return a.first.columnwise.signs != nullptr
             ? Launch<kRow, Copying::kRotated, false>(a, queue)
             : Launch<kRow, Copying::kPlain, false>(a, queue);
}

}  // namespace

cudaError_t LaunchEncodeNvfp4Tiles(const EncodeArgs& a, const Queue& queue) {
  if (a.params.square) {
    return Launch<Copying::kPlain, Copying::kPlain, true>(a, queue);
  }
  if (a.first.rowwise.data == nullptr) {
    return LaunchFor<Copying::kNone>(a, queue);
  }
  return a.first.rowwise.signs != nullptr
             ? LaunchFor<Copying::kRotated>(a, queue)
             : LaunchFor<Copying::kPlain>(a, queue);
}

}  // namespace quantd::cuda
