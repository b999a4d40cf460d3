// NVFP4, the columnwise copy, alone or with the rowwise one. Tiles of 128 x 128
// are read twice, by columns and by rows; the second time they are in the L1
// cache, for which shared memory is kept small. Codes and scales of columns
// pass through it on their way to whole lines.
#include "kernels/cuda/encode_nvfp4.cuh"
#include "kernels/cuda/nvfp4.h"

namespace quantd::cuda {
namespace {

constexpr int kSquares = kTileSide / kBlock;  // blocks of a tile, either way
constexpr int kPairs = kTileSide / 2;         // of columns
// CTAs at a time; more would leave too few registers for two columns.
constexpr int kPerMultiprocessor = 3;
constexpr int64_t kPitchOfOne = kSizeOf<DType::kBF16>;

enum class RowCopy { kNone, kPlain, kRotated };

// The columnwise outputs of a tile.
struct ColumnOutput {
  uint2 codes[kTileSide][kSquares + 1];
  alignas(4) uint8_t scales[kTileSide][kSquares];
};
// Largest magnitudes of a tile's squares, fp32 bits, NaN above Inf.
using SquareMaxima = uint32_t[kSquares][kSquares];

// Where a tile is and how much of it there is.
struct Place {
  int64_t row, col;  // of the group
  int rows, cols;    // 1 to 128
};

// A pair of neighbouring columns of sixteen rows, a row to a word.
__device__ __forceinline__ void LoadPair(const std::byte* p, int64_t pitch,
                                         int count, uint32_t (&w)[kBlock]) {
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    w[i] = i < count ? *reinterpret_cast<const uint32_t*>(p) : 0u;
    p += pitch;
  }
}

__device__ __forceinline__ Words ColumnOf(const uint32_t (&w)[kBlock],
                                          bool high) {
  Words x;
  QUANTD_UNROLL
  for (int i = 0; i < kBlock / 2; ++i) {
    x.w[i] = __byte_perm(w[2 * i], w[2 * i + 1], high ? 0x7632 : 0x5410);
  }
  return x;
}

// Both columns rotated, in the same form.
__device__ __forceinline__ void RotatePair(const EncodeArgs& a,
                                           uint32_t (&w)[kBlock]) {
  float low[kBlock], high[kBlock];
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    low[i] = LowOf(w[i]);
    high[i] = HighOf(w[i]);
  }
  RotateForward<Scalar, true>(low, a.signs);
  RotateForward<Scalar, true>(high, a.signs);
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) w[i] = PackBf16(low[i], high[i]);
}

// Codes of both columns, with their multipliers.
__device__ __forceinline__ void CodesOfPair(const uint32_t (&w)[kBlock],
                                            float low_m, float high_m,
                                            uint2 (&codes)[2]) {
  uint32_t words[2][2];
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    const uint32_t* v = w + 8 * h;
    E2M1Magnitudes low, high;
    QUANTD_UNROLL
    for (int i = 0; i < 8; ++i) {
      low.Add(fabsf(LowOf(v[i])) * low_m, i);
      high.Add(fabsf(HighOf(v[i])) * high_m, i);
    }
    // Signs of four rows: those of the first column in the low half.
    uint32_t signs[2];
    QUANTD_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint32_t even = SignBytes(v[4 * i], v[4 * i + 2]);
      const uint32_t odd = SignBytes(v[4 * i + 1], v[4 * i + 3]);
      signs[i] = (even & 0x0F0F0F0Fu) | (odd & 0xF0F0F0F0u);
    }
    const uint32_t low_signs = __byte_perm(signs[0], signs[1], 0x5410);
    const uint32_t high_signs = __byte_perm(signs[0], signs[1], 0x7632);
    words[0][h] = low.word | (low_signs & 0x88888888u);
    words[1][h] = high.word | (high_signs & 0x88888888u);
  }
  codes[0] = make_uint2(words[0][0], words[0][1]);
  codes[1] = make_uint2(words[1][0], words[1][1]);
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
    for (int i = 0; i < kBlock; ++i) {
      for (uint32_t bits : {w[i] << 16, w[i] & 0xFFFF0000u}) {
        const uint32_t a = bits & kAbsMask;
        if (a <= kInfBits && a > max) max = a;
      }
    }
  }
  QUANTD_UNROLL
  for (int lane = 1; lane < 8; lane *= 2) {
    const uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, max, lane);
    max = other > max ? other : max;
  }
  return max;
}

template <bool kRht, bool kSquare>
struct ColumnPhase {
  const EncodeArgs& a;
  const GroupState& group;
  SquareMaxima& max;
  SquareMaxima& clean;
  ColumnOutput& out;

  __device__ __forceinline__ void Put(int line, int block,
                                      const Unit& unit) const {
    out.codes[line][block] = unit.codes;
    out.scales[line][block] = static_cast<uint8_t>(unit.scale);
  }

  // Columns whose bits are set in `rare`, once more, the generic way.
  __device__ __forceinline__ void PutRare(uint32_t rare, int block,
                                          const std::byte* p, int64_t pitch,
                                          int count) const {
    const float amax = *group.task.columnwise.amax;
    for (int i = 0; rare != 0; ++i, rare >>= 1) {
      if ((rare & 1u) == 0) continue;
      const int line = LineOf(i / 2) + i % 2;
      uint32_t w[kBlock];
      LoadPair(p + LineOf(i / 2) * kPitchOfOne, pitch, count, w);
      const Words x = ColumnOf(w, i % 2 == 1);
      Put(line, block,
          kSquare
              ? EncodeRareOfSquare(a.params, x, amax, max[block][line / kBlock],
                                   clean[block][line / kBlock])
              : EncodeRare(a.params, x, kRht ? a.signs : nullptr, amax, nullptr,
                           a.seen));
    }
  }

  static __device__ __forceinline__ int LineOf(int u) {
    return 2 * (static_cast<int>(threadIdx.x) % 32 + 32 * u);
  }

  // All threads must call.
  __device__ __forceinline__ void Run(const Place& at) const {
    const int64_t pitch = a.list.cols * kPitchOfOne;
    const int block = threadIdx.x / 32;
    const int rows = at.rows - block * kBlock;
    const std::byte* const p =
        group.task.x + (at.row + block * kBlock) * pitch + at.col * kPitchOfOne;
    uint32_t rare = 0;
    QUANTD_UNROLL
    for (int u = 0; u < kPairs / 32; ++u) {
      const int line = LineOf(u);
      uint32_t w[kBlock];
      LoadPair(p + line * kPitchOfOne, pitch, line < at.cols ? rows : 0, w);
      if constexpr (kRht) RotatePair(a, w);
      uint32_t low_max, high_max;
      if constexpr (kSquare) {
        low_max = SquareMaximum(w, false);
        high_max = low_max;
        uint32_t numbers = low_max;
        // (A square is eight lanes: all of them or none.)
        if (__any_sync(0xFFFFFFFFu, low_max >= kInfBits)) {
          numbers = SquareMaximum(w, true);
          Report(SeenIn(low_max, numbers), a.seen);
        }
        max[block][line / kBlock] = low_max;
        clean[block][line / kBlock] = numbers;
        if (group.task.columnwise.data == nullptr) continue;
      } else {
        const uint32_t both = LargestOf(w);
        low_max = both << 16;
        high_max = both & 0xFFFF0000u;
      }
      const float low = __uint_as_float(low_max) * group.col.s_inv6;
      const float high = __uint_as_float(high_max) * group.col.s_inv6;
      const uint32_t scales[2] = {E4M3Of(low), E4M3Of(high)};
      uint2 codes[2];
      CodesOfPair(w, group.col.of[scales[0]], group.col.of[scales[1]], codes);
      Put(line, block, {codes[0], scales[0]});
      Put(line + 1, block, {codes[1], scales[1]});
      rare |= (IsRare(low_max, low) ? 1u : 0u) << (2 * u);
      rare |= (IsRare(high_max, high) ? 2u : 0u) << (2 * u);
    }
    if constexpr (kSquare) __syncwarp();
    if (rare != 0) PutRare(rare, block, p, pitch, rows);
  }

  // After a barrier: what of `out` is inside the copy.
  __device__ __forceinline__ void Store(const Place& at) const {
    const CopyTask& copy = group.task.columnwise;
    const int64_t first = at.row / kBlock;
    const int64_t rest = copy.padded / kBlock - first;
    std::byte* const to = copy.data + at.col * copy.data_line + first * 8;
    QUANTD_UNROLL
    for (int i = 0; i < kTileSide * kSquares / kThreads; ++i) {
      const int item = threadIdx.x + i * kThreads;
      const int line = item / kSquares;
      const int block = item % kSquares;
      if (line < at.cols && block < rest) {
        *reinterpret_cast<uint2*>(to + line * copy.data_line + block * 8) =
            out.codes[line][block];
      }
    }
    // Four scales a thread. Blocks beyond the copy are zeros, as padding is.
    const int line = threadIdx.x / 2;
    const int block = threadIdx.x % 2 * 4;
    if (line < at.cols && block < rest) {
      const int64_t number = at.col + line;
      const ScaleColumn scales(copy, number - number % kTileSide,
                               first + block);
      *reinterpret_cast<uint32_t*>(scales.at(number % kTileSide)) =
          *reinterpret_cast<const uint32_t*>(&out.scales[line][block]);
    }
  }
};

template <bool kRht, bool kSquare>
struct RowPhase {
  static constexpr int kStep = kThreads / kSquares;  // rows at a time

  const EncodeArgs& a;
  const GroupState& group;
  const SquareMaxima& max;
  const SquareMaxima& clean;

  __device__ __forceinline__ void Run(const Place& at) const {
    const CopyTask& copy = group.task.rowwise;
    const int64_t pitch = a.list.cols * kPitchOfOne;
    const int block = threadIdx.x % kSquares;
    const int first = threadIdx.x / kSquares;
    const ScaleColumn scales(copy, at.row, at.col / kBlock + block);
    const std::byte* p = group.task.x + (at.row + first) * pitch +
                         (at.col + block * kBlock) * kPitchOfOne;
    std::byte* to =
        copy.data + (at.row + first) * copy.data_line + at.col / 2 + block * 8;
    if (block * kBlock >= at.cols) return;
    uint32_t rare = 0;
    QUANTD_UNROLL
    for (int u = 0; u < kTileSide / kStep; ++u) {
      const int row = first + u * kStep;
      if (row >= at.rows) break;
      Words x = LoadWords(p + u * kStep * pitch);
      if constexpr (kRht) {
        float v[kBlock];
        Unpack(x, v);
        RotateForward<Scalar, true>(v, a.signs);
        Pack(v, &x);
      }
      const uint32_t largest =
          kSquare ? max[row / kBlock][block] : LargerHalf(LargestOf(x.w));
      const float wanted = __uint_as_float(largest) * group.row.s_inv6;
      const uint32_t scale = E4M3Of(wanted);
      *reinterpret_cast<uint2*>(to + u * kStep * copy.data_line) =
          CodesOf(x, group.row.of[scale]);
      *scales.at(row) = static_cast<std::byte>(scale);
      rare |= IsRare(largest, wanted) ? 1u << u : 0u;
    }
    for (int u = 0; rare != 0; ++u, rare >>= 1) {
      if ((rare & 1u) == 0) continue;
      const int row = first + u * kStep;
      const Words x = LoadWords(p + u * kStep * pitch);
      const Unit unit = kSquare
                            ? EncodeRareOfSquare(a.params, x, *copy.amax,
                                                 max[row / kBlock][block],
                                                 clean[row / kBlock][block])
                            : EncodeRare(a.params, x, kRht ? a.signs : nullptr,
                                         *copy.amax, nullptr, a.seen);
      *reinterpret_cast<uint2*>(to + u * kStep * copy.data_line) = unit.codes;
      *scales.at(row) = static_cast<std::byte>(unit.scale);
    }
  }
};

template <RowCopy kRow, bool kColRht, bool kSquare>
__global__ void __launch_bounds__(kThreads, kPerMultiprocessor)
    EncodeNvfp4Tiles(const __grid_constant__ EncodeArgs a) {
  __shared__ GroupState group;
  __shared__ ColumnOutput out;
  __shared__ SquareMaxima max, clean;
  int64_t current = -1;
  const auto across = static_cast<uint32_t>(TilesAcross(a.list));
  const auto count = static_cast<uint32_t>(TileCount(a.list));
  for (uint32_t t = blockIdx.x; t < count; t += gridDim.x) {
    const Chunk chunk(a.list, t / across);
    if (group.Enter(a, chunk.group, &current)) group.Settle(a);
    const GroupTask& task = group.task;
    Place at;
    at.row = chunk.number * kTileSide;
    at.col = int64_t{t % across} * kTileSide;
    const int64_t rows = task.rows - at.row;
    const int64_t cols = a.list.cols - at.col;
    at.rows = static_cast<int>(rows < kTileSide ? rows : kTileSide);
    at.cols = static_cast<int>(cols < kTileSide ? cols : kTileSide);
    const ColumnPhase<kColRht, kSquare> columns = {a, group, max, clean, out};
    __syncthreads();  // the last tile has been stored
    columns.Run(at);
    __syncthreads();
    if (!kSquare || task.columnwise.data != nullptr) columns.Store(at);
    if constexpr (kRow != RowCopy::kNone) {
      if (!kSquare || task.rowwise.data != nullptr) {
        RowPhase<kRow == RowCopy::kRotated, kSquare>{a, group, max, clean}.Run(
            at);
      }
    }
    if (a.dbias) {
      // Two warps, other ones at each tile.
      const unsigned thread = (threadIdx.x + t * kPairs) % kThreads;
      const int column = 2 * static_cast<int>(thread);
      if (column < at.cols) {
        float sums[2] = {0.0f, 0.0f};
        const int64_t pitch = a.list.cols * kPitchOfOne;
        AddRows(task.x + at.row * pitch + (at.col + column) * kPitchOfOne,
                pitch, at.rows, sums);
        *reinterpret_cast<float2*>(task.partial + chunk.number * a.list.cols +
                                   at.col + column) =
            make_float2(sums[0], sums[1]);
      }
    }
  }
}

template <RowCopy kRow, bool kColRht, bool kSquare>
cudaError_t Launch(const EncodeArgs& a, const Queue& queue) {
  EncodeNvfp4Tiles<kRow, kColRht, kSquare>
      <<<GridFor(TileCount(a.list), kPerMultiprocessor, queue), kThreads, 0,
         queue.stream>>>(a);
  return cudaGetLastError();
}

template <RowCopy kRow>
cudaError_t LaunchFor(const EncodeArgs& a, const Queue& queue) {
  return a.first.columnwise.signs != nullptr
             ? Launch<kRow, true, false>(a, queue)
             : Launch<kRow, false, false>(a, queue);
}

}  // namespace

cudaError_t LaunchEncodeNvfp4Tiles(const EncodeArgs& a, const Queue& queue) {
  if (a.params.square) return Launch<RowCopy::kPlain, false, true>(a, queue);
  if (a.first.rowwise.data == nullptr) {
    return LaunchFor<RowCopy::kNone>(a, queue);
  }
  return a.first.rowwise.signs != nullptr
             ? LaunchFor<RowCopy::kRotated>(a, queue)
             : LaunchFor<RowCopy::kPlain>(a, queue);
}

}  // namespace quantd::cuda
