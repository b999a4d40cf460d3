// NVFP4 by tiles of 128 x 128: the columnwise copy, both copies, squares, and
// whatever goes with sums of columns. A tile is read once into shared memory,
// a few tiles ahead; codes and scales of columns pass through it on their way
// to whole lines.
#include "kernels/cuda/encode_nvfp4.cuh"
#include "kernels/cuda/nvfp4.h"

namespace quantd::cuda {
namespace {

constexpr int kTileThreads = 512;
constexpr int kPerMultiprocessor = 2;
constexpr int kStages = 2;
constexpr int kSquares = kTileSide / kBlock;  // blocks of a tile, either way
constexpr int kPairs = kTileSide / 2;         // of columns
static_assert(kPairs * kSquares == kTileThreads);

enum class Copying { kNone, kPlain, kRotated };

// Largest magnitudes of a tile's squares, fp32 bits, NaN above Inf, and with
// NaN dropped.
struct SquareMaxima {
  uint32_t max[kSquares][kSquares];
  uint32_t clean[kSquares][kSquares];
};

// The columnwise outputs of a tile. The odd pitch keeps neighbouring columns in
// other banks.
struct ColumnUnits {
  uint2 codes[kTileSide][kSquares + 1];
  alignas(4) uint8_t scales[kTileSide][kSquares];
};

struct Shared {
  TileRing<kStages>::Storage ring;
  GroupStateWith<Lines> group;
  SquareMaxima squares;
  ColumnUnits columns[2];  // of every other tile
};

// Sixteen rows of a column, or of the next one.
__device__ __forceinline__ Words ColumnOf(const uint32_t (&w)[kBlock],
                                          bool next) {
  Words x;
  QUANTD_UNROLL
  for (int i = 0; i < kBlock / 2; ++i) {
    x.w[i] = __byte_perm(w[2 * i], w[2 * i + 1], next ? 0x7632 : 0x5410);
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

// Largest magnitude of the square that eight neighbouring lanes hold, in the
// words' halves; NaN dropped where `clean`.
__device__ __forceinline__ uint32_t SquareMaximum(const uint32_t (&w)[kBlock],
                                                  bool clean) {
  uint32_t max = LargerHalf(LargestOf(w));
  if (clean) {
    max = 0;
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) {
      const uint32_t low = (w[i] << 16) & kAbsMask;
      const uint32_t high = w[i] & 0x7FFF0000u;
      if (low <= kInfBits && low > max) max = low;
      if (high <= kInfBits && high > max) max = high;
    }
  }
  QUANTD_UNROLL
  for (int lane = 1; lane < 8; lane *= 2) {
    const uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, max, lane);
    max = other > max ? other : max;
  }
  return max;
}

// One copy's unit under its multipliers. Whether EncodeRare is to make it
// instead.
template <bool kRht>
__device__ __forceinline__ bool EncodeUnit(const EncodeArgs& a, Words x,
                                           const Lines& lines,
                                           const uint32_t* square, Unit* unit) {
  if constexpr (kRht) {
    float v[kBlock];
    Unpack(x, v);
    RotateForward<Scalar, true>(v, a.signs);
    Pack(v, &x);
  }
  const uint32_t max = square != nullptr ? *square : LargerHalf(LargestOf(x.w));
  const float wanted = __uint_as_float(max) * lines.s_inv6;
  unit->scale = E4M3Of(wanted);
  unit->codes = CodesOf(x, lines.of[unit->scale]);
  return IsRare(max, wanted);
}

template <bool kRht, bool kSquare>
struct Encoder {
  const EncodeArgs& a;
  Shared& s;
  const Lines& lines;
  float amax;

  __device__ __forceinline__ bool Encode(const Words& x, int square_row,
                                         int square_col, Unit* unit) const {
    return EncodeUnit<kRht>(
        a, x, lines, kSquare ? &s.squares.max[square_row][square_col] : nullptr,
        unit);
  }
  __device__ __forceinline__ Unit EncodeAgain(const Words& x, int square_row,
                                              int square_col) const {
    if constexpr (kSquare) {
      return EncodeRareOfSquare(a.params, x, amax,
                                s.squares.max[square_row][square_col],
                                s.squares.clean[square_row][square_col]);
    } else {
      return EncodeRare(a.params, x, kRht ? a.signs : nullptr, amax, nullptr,
                        a.seen);
    }
  }
};

// A thread is sixteen rows of two neighbouring columns; neighbours in a warp
// are neighbours along the rows.
__device__ __forceinline__ void LoadPair(const StagedTile& tile,
                                         uint32_t (&w)[kBlock]) {
  const std::byte* p =
      tile.at(threadIdx.x / kPairs * kBlock, threadIdx.x % kPairs * 2);
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    w[i] = *reinterpret_cast<const uint32_t*>(p + i * StagedTile::kPitch);
  }
}

// All threads must call.
__device__ __forceinline__ void FindSquares(const EncodeArgs& a,
                                            const StagedTile& tile,
                                            SquareMaxima* squares) {
  uint32_t w[kBlock];
  LoadPair(tile, w);
  const uint32_t max = SquareMaximum(w, false);
  uint32_t clean = max;
  if (__any_sync(0xFFFFFFFFu, max >= kInfBits)) {
    clean = SquareMaximum(w, true);
    Report(SeenIn(max, clean), a.seen);
  }
  const int row = threadIdx.x / kPairs;
  const int col = threadIdx.x % kPairs / 8;
  squares->max[row][col] = max;
  squares->clean[row][col] = clean;
}

template <bool kRht, bool kSquare>
__device__ __forceinline__ void EncodeColumns(const EncodeArgs& a,
                                              const StagedTile& tile, Shared* s,
                                              ColumnUnits* to) {
  const Encoder<kRht, kSquare> encoder = {a, *s, s->group.col,
                                          *s->group.task.columnwise.amax};
  const int block = threadIdx.x / kPairs;
  const int line = threadIdx.x % kPairs * 2;
  uint32_t w[kBlock];
  LoadPair(tile, w);
  uint32_t rare = 0;
  QUANTD_UNROLL
  for (int next = 0; next < 2; ++next) {
    Unit unit;
    const bool again =
        encoder.Encode(ColumnOf(w, next), block, line / kBlock, &unit);
    rare |= again ? 1u << next : 0u;
    to->codes[line + next][block] = unit.codes;
    to->scales[line + next][block] = static_cast<uint8_t>(unit.scale);
  }
  for (int next = 0; rare != 0; ++next, rare >>= 1) {
    if ((rare & 1u) == 0) continue;
    LoadPair(tile, w);
    const Unit unit =
        encoder.EncodeAgain(ColumnOf(w, next == 1), block, line / kBlock);
    to->codes[line + next][block] = unit.codes;
    to->scales[line + next][block] = static_cast<uint8_t>(unit.scale);
  }
}

// What of the tile's columnwise outputs is inside the copy.
__device__ __forceinline__ void StoreColumns(const CopyTask& copy,
                                             const ColumnUnits& s,
                                             const Place& at) {
  const int64_t first = at.row / kBlock;
  const int64_t rest = copy.padded / kBlock - first;
  std::byte* const to = copy.data + at.col * copy.data_line + first * 8;
  QUANTD_UNROLL
  for (int i = 0; i < kTileSide * kSquares / kTileThreads; ++i) {
    const int item = static_cast<int>(threadIdx.x) + i * kTileThreads;
    const int line = item / kSquares;
    const int block = item % kSquares;
    if (line < at.cols && block < rest) {
      *reinterpret_cast<uint2*>(to + line * copy.data_line + block * 8) =
          s.codes[line][block];
    }
  }
  // Four scales a thread. Blocks beyond the copy are zeros, as padding is.
  const int line = static_cast<int>(threadIdx.x) / 2;
  const int block = static_cast<int>(threadIdx.x) % 2 * 4;
  if (line < at.cols && block < rest) {
    const ScaleColumn scales(copy, at.col, first + block);
    *reinterpret_cast<uint32_t*>(scales.at(line)) =
        *reinterpret_cast<const uint32_t*>(&s.scales[line][block]);
  }
}

template <bool kRht, bool kSquare>
__device__ __forceinline__ void EncodeRows(const EncodeArgs& a,
                                           const StagedTile& tile,
                                           const Place& at, Shared* s) {
  constexpr int kStep = kTileThreads / kSquares;  // rows at a time
  const CopyTask& copy = s->group.task.rowwise;
  const Encoder<kRht, kSquare> encoder = {a, *s, s->group.row, *copy.amax};
  // Two rows of four blocks are eight lanes: all banks once.
  const int t = static_cast<int>(threadIdx.x);
  const int block = t % 4 + t / 8 % 2 * 4;
  const int first = t / 4 % 2 + t / 16 * 2;
  if (block * kBlock >= at.cols) return;
  const ScaleColumn scales(copy, at.row, at.col / kBlock + block);
  std::byte* const to =
      copy.data + (at.row + first) * copy.data_line + at.col / 2 + block * 8;
  uint32_t rare = 0;
  QUANTD_UNROLL
  for (int u = 0; u < kTileSide / kStep; ++u) {
    const int row = first + u * kStep;
    if (row >= at.rows) break;
    Unit unit;
    const Words x = LoadWords(tile.at(row, block * kBlock));
    rare |= encoder.Encode(x, row / kBlock, block, &unit) ? 1u << u : 0u;
    *reinterpret_cast<uint2*>(to + u * kStep * copy.data_line) = unit.codes;
    *scales.at(row) = static_cast<std::byte>(unit.scale);
  }
  for (int u = 0; rare != 0; ++u, rare >>= 1) {
    if ((rare & 1u) == 0) continue;
    const int row = first + u * kStep;
    const Words x = LoadWords(tile.at(row, block * kBlock));
    const Unit unit = encoder.EncodeAgain(x, row / kBlock, block);
    *reinterpret_cast<uint2*>(to + u * kStep * copy.data_line) = unit.codes;
    *scales.at(row) = static_cast<std::byte>(unit.scale);
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
  const std::byte* p = tile.at(0, column);
#pragma unroll 16
  for (int r = 0; r < at.rows; ++r) {
    const uint32_t word = *reinterpret_cast<const uint32_t*>(p);
    low = low + LowOf(word);
    high = high + HighOf(word);
    p += StagedTile::kPitch;
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
  TileRing<kStages> ring(&s.ring);
  int64_t current = -1;
  const auto count = static_cast<uint32_t>(TileCount(a.list));
  for (uint32_t k = 0; k + 1 < kStages; ++k) {
    ring.Start(k, a.list, a.first, map, blockIdx.x + k * gridDim.x);
  }
  const auto columnwise = [&] {
    return kCol != Copying::kNone &&
           (!kSquare || s.group.task.columnwise.data != nullptr);
  };
  // Columns of a tile leave when all of them are there: after the barrier with
  // which the next one begins.
  const auto store = [&](uint32_t k) {
    if (columnwise()) {
      StoreColumns(s.group.task.columnwise, s.columns[k % 2], ring.place(k));
    }
  };
  uint32_t k = 0;
  for (uint32_t t = blockIdx.x; t < count; t += gridDim.x, ++k) {
    // The last tile has been used.
    __syncthreads();
    ring.Start(k + kStages - 1, a.list, a.first, map,
               t + (kStages - 1) * gridDim.x);
    if (k > 0) store(k - 1);
    const Place& at = ring.place(k);
    if (s.group.Enter(a, at.group, &current)) s.group.Settle(a);
    const GroupTask& task = s.group.task;
    const StagedTile& tile = ring.Wait(k, a.list.count == 1);
    if constexpr (kSquare) {
      FindSquares(a, tile, &s.squares);
      __syncthreads();
    }
    if (columnwise()) {
      EncodeColumns<kCol == Copying::kRotated, kSquare>(a, tile, &s,
                                                        &s.columns[k % 2]);
    }
    if (kRow != Copying::kNone && (!kSquare || task.rowwise.data)) {
      EncodeRows<kRow == Copying::kRotated, kSquare>(a, tile, at, &s);
    }
    // Two warps' work, others at each tile.
    if (a.dbias) {
      SumColumns(tile, at, a.list.cols, task,
                 (threadIdx.x + t * kPairs) % kTileThreads);
    }
  }
  if (k > 0) {
    __syncthreads();
    store(k - 1);
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
  error = MakeTensorMap(a.first.x, a.list.rows, a.list.cols, kTileSide,
                        kTileSide, TileLayout::kPlain, &map);
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
