// FP8 with tensor scales and with blocks of 1 x 128, and MXFP8, of bf16: the
// tuned way beside EncodeSpans (kernels/cuda/encode.cuh), with the same bytes.
// kernels/cuda/ENCODE_FP8.md says why it is as it is.
//
// A CTA is a tile of a group, a warp 32 of its rows, a lane 4 of its columns in
// all of those rows, which it keeps in registers: the input is read once for
// both copies and for dbias. Lanes beyond the matrix hold zeros.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FP8_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FP8_CUH_

#include "kernels/cuda/fp8_words.cuh"
#include "kernels/cuda/span.cuh"

namespace quantd::cuda {

inline constexpr int kTileThreads = 128;
inline constexpr int kTileWarps = kTileThreads / 32;
inline constexpr int kStripRows = kTileSide / kTileWarps;
inline constexpr int kLaneCols = kTileSide / 32;
static_assert(kStripRows == 32 && kLaneCols == 4);

// What a lane has of its tile.
struct Strip {
  uint2 raw[kStripRows];  // 4 columns of each row
  const GroupTask* group;
  int64_t cols;  // K
  int64_t row;   // the group's own
  int64_t col;
  int warp;
  int lane;
  int rows;  // of the warp's 32 that exist
  bool inside;

  // Where its first element is, in bytes of that many columns.
  __device__ int64_t Offset(int64_t columns) const {
    return row * columns + col;
  }
};

// `kFull`: all of the tile is there.
template <bool kFull>
__device__ __forceinline__ Strip LoadStrip(const GroupTile& tile,
                                           int64_t cols) {
  Strip s;
  s.group = tile.group;
  s.cols = cols;
  s.warp = static_cast<int>(threadIdx.x) / 32;
  s.lane = static_cast<int>(threadIdx.x) % 32;
  s.row = tile.row + s.warp * kStripRows;
  s.col = tile.col + s.lane * kLaneCols;
  const int64_t left = kFull ? 32 : tile.group->rows - s.row;
  s.rows = static_cast<int>(left < 0 ? 0 : left < 32 ? left : 32);
  s.inside = kFull || s.col < cols;
  const int count = s.inside ? s.rows : 0;
  const std::byte* p = tile.group->x + 2 * s.Offset(cols);
  QUANTD_UNROLL
  for (int r = 0; r < kStripRows; ++r) {
    s.raw[r] = make_uint2(0, 0);
    if (r < count) s.raw[r] = __ldg(reinterpret_cast<const uint2*>(p));
    p += 2 * cols;
  }
  return s;
}

// --- what is rare -----------------------------------------------------------

// The largest magnitude of `count` elements, `step` bytes apart, NaN dropped.
__device__ __forceinline__ uint32_t CleanMax(const std::byte* p, int64_t step,
                                             int64_t count) {
  uint32_t clean = 0;
#pragma unroll 1
  for (int64_t i = 0; i < count; ++i) {
    const float v = DecodeElement<DType::kBF16>(LoadBits<DType::kBF16>(p));
    uint32_t max, number;
    Maxima<Scalar>(&v, 1, &max, &number);
    clean = Scalar::Max(clean, number);
    p += step;
  }
  return clean;
}

// Seen bits of `count` elements one after the other.
__device__ __forceinline__ uint32_t SeenInRun(const std::byte* p, int count) {
  uint32_t seen = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const float v =
        DecodeElement<DType::kBF16>(LoadBits<DType::kBF16>(p + 2 * i));
    uint32_t max, clean;
    Maxima<Scalar>(&v, 1, &max, &clean);
    seen |= SeenIn(max, clean);
  }
  return seen;
}

// Seen bits of a lane's elements, whose largest magnitudes are `max`.
__device__ __forceinline__ uint32_t SeenInStrip(const Strip& s, uint32_t max) {
  if (!HoldsSpecial(max)) return 0;
  uint32_t seen = 0;
#pragma unroll 1
  for (int r = 0; r < s.rows; ++r) {
    seen |=
        SeenInRun(s.group->x + 2 * (s.Offset(s.cols) + r * s.cols), kLaneCols);
  }
  return seen;
}

// --- scales -----------------------------------------------------------------

// The scale of a block with largest magnitude `max`, bf16 bits. Element i of
// the block is at `p` + i * `step`.
template <Scaling S>
__device__ __forceinline__ BlockScale<Scalar> SettleBlock(
    const EncodeParams& params, uint32_t max, const std::byte* p, int64_t step,
    int64_t count) {
  EncodeParams known = params;
  known.scaling = S;
  uint32_t clean = max << 16;
  if (max > kBf16Inf) clean = CleanMax(p, step, count);
  return MakeBlockScale<Scalar>(known, {}, max << 16, clean);
}

// Maxima that `kLanes` neighbouring lanes have parts of, a word of two rows
// each: leaves lane i of them with kWords / kLanes words from there on, or,
// where those are fewer, several lanes with the same one.
template <int kLanes, int kWords = kStripRows / 2>
__device__ __forceinline__ void ReduceRows(int lane, uint32_t* max) {
  constexpr int kBit = kLanes / 2;
  if constexpr (kWords == 1) {
    max[0] = MaxOfWords(max[0], __shfl_xor_sync(0xFFFFFFFFu, max[0], kBit));
  } else {
    const bool upper = (lane & kBit) != 0;
    QUANTD_UNROLL
    for (int i = 0; i < kWords / 2; ++i) {
      const uint32_t keep = upper ? max[i + kWords / 2] : max[i];
      const uint32_t give = upper ? max[i] : max[i + kWords / 2];
      max[i] = MaxOfWords(keep, __shfl_xor_sync(0xFFFFFFFFu, give, kBit));
    }
  }
  if constexpr (kBit > 1) {
    ReduceRows<kBit, kWords == 1 ? 1 : kWords / 2>(lane, max);
  }
}

// Multipliers of the rows of a strip. `Settle` makes the scales of RowMax and
// stores them.
template <Scaling S>
class RowScales;

template <>
class RowScales<Scaling::kTensor> {
 public:
  __device__ void Settle(const EncodeParams&, const CopyTask& copy,
                         const Strip&, uint32_t (&)[kStripRows / 2]) {
    m_ = *copy.tensor_scale;
  }
  // Of rows 4 * q to 4 * q + 3, in this lane's columns. All lanes must call.
  __device__ void Four(int, float (&m)[4]) const {
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) m[i] = m_;
  }

 private:
  float m_;
};

// A lane is a row.
template <>
class RowScales<Scaling::kBlock> {
 public:
  __device__ void Settle(const EncodeParams& params, const CopyTask& copy,
                         const Strip& s, uint32_t (&max)[kStripRows / 2]) {
    ReduceRows<32>(s.lane, max);
    const int64_t col = s.col - s.lane * kLaneCols;
    const int64_t row = s.row + s.lane;
    const int64_t left = s.cols - col;
    const BlockScale<Scalar> scale = SettleBlock<Scaling::kBlock>(
        params, s.lane % 2 == 0 ? LowMagnitude(max[0]) : HighMagnitude(max[0]),
        s.group->x + 2 * (row * s.cols + col), 2, left < 128 ? left : 128);
    m_ = scale.m;
    if (s.lane < s.rows) {
      StoreGlobal(StoredScale<Scalar>(params, scale.stored),
                  copy.scale + 4 * (row + col / 128 * copy.scale_block));
    }
  }
  __device__ void Four(int q, float (&m)[4]) const {
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      m[i] = __shfl_sync(0xFFFFFFFFu, m_, 4 * q + i);
    }
  }

 private:
  float m_;
};

// A lane is four rows of one of the four blocks of 32 columns.
template <>
class RowScales<Scaling::kMx> {
 public:
  __device__ void Settle(const EncodeParams& params, const CopyTask& copy,
                         const Strip& s, uint32_t (&max)[kStripRows / 2]) {
    octet_ = s.lane & 24;
    ReduceRows<8>(s.lane, max);
    const int64_t col = s.col - s.lane % 8 * kLaneCols;
    const int64_t row = s.row + s.lane % 8 * 4;
    const std::byte* const x = s.group->x + 2 * (row * s.cols + col);
    uint32_t codes = 0;
    uint32_t m[4];
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      const BlockScale<Scalar> scale = SettleBlock<Scaling::kMx>(
          params,
          i % 2 == 0 ? LowMagnitude(max[i / 2]) : HighMagnitude(max[i / 2]),
          x + 2 * i * s.cols, 2, 32);
      codes |= scale.stored << (8 * i);
      m[i] = __float_as_uint(scale.m);
    }
    // Powers of two are bf16.
    m_[0] = __byte_perm(m[0], m[1], 0x7632);
    m_[1] = __byte_perm(m[2], m[3], 0x7632);
    Store(copy, s, codes);
  }
  __device__ void Four(int q, float (&m)[4]) const {
    QUANTD_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint32_t two = __shfl_sync(0xFFFFFFFFu, m_[i], octet_ | q);
      m[2 * i] = LowBf16(two);
      m[2 * i + 1] = HighBf16(two);
    }
  }

 private:
  // From four rows of a block to four blocks of a row, which are one word.
  __device__ __forceinline__ void Store(const CopyTask& copy, const Strip& s,
                                        uint32_t codes) const {
    uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, codes, 16);
    codes = (s.lane & 16) != 0 ? __byte_perm(other, codes, 0x7632)
                               : __byte_perm(codes, other, 0x5410);
    other = __shfl_xor_sync(0xFFFFFFFFu, codes, 8);
    codes = (s.lane & 8) != 0 ? __byte_perm(codes, other, 0x3715)
                              : __byte_perm(codes, other, 0x6240);
    const int r = s.lane % 8 * 4 + s.lane / 8;
    if (r >= s.rows) return;
    // Blocks beyond the matrix are zeros with scale 0, as their padding.
    const int64_t block = (s.col - s.lane * kLaneCols) / 32;
    StoreGlobal(codes, copy.scale + ScaleIndex(copy, s.row + r, block));
  }

  int octet_;
  uint32_t m_[2];
};

// The largest magnitudes of the four columns.
__device__ __forceinline__ uint2 ColumnMax(const Strip& s) {
  uint2 max = make_uint2(0, 0);
  QUANTD_UNROLL
  for (int r = 0; r < kStripRows; ++r) {
    max.x = MaxOfWords(s.raw[r].x, max.x);
    max.y = MaxOfWords(s.raw[r].y, max.y);
  }
  return max;
}

// Of every two rows, over the four columns.
__device__ __forceinline__ void RowMax(const Strip& s,
                                       uint32_t (&max)[kStripRows / 2]) {
  QUANTD_UNROLL
  for (int i = 0; i < kStripRows / 2; ++i) {
    const uint32_t a = MaxOfWords(s.raw[2 * i].x, s.raw[2 * i].y);
    const uint32_t b = MaxOfWords(s.raw[2 * i + 1].x, s.raw[2 * i + 1].y);
    max[i] = MaxOfWords(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632));
  }
}

// Of one of them.
__device__ __forceinline__ uint32_t MagnitudeOf(const uint2& max, int column) {
  const uint32_t word = column < 2 ? max.x : max.y;
  return column % 2 == 0 ? LowMagnitude(word) : HighMagnitude(word);
}

// What the warps of a tile share for its columns.
template <Scaling S>
struct ColumnShared {
  // Codes of a column in 8 pieces of 16 rows, the pieces of a column in an
  // order that keeps both the writing and the reading free of conflicts.
  uint4 codes[kTileSide][kTileSide / 16];
  uint2 max[kTileWarps][32];

  static __device__ int Piece(int column, int piece) {
    return piece ^ (column / kLaneCols % 8);
  }
};
template <>
struct ColumnShared<Scaling::kMx> {
  uint32_t swizzled[kTileThreads];
};

// Multipliers of the four columns. All threads of the CTA must call. `max`:
// ColumnMax.
template <Scaling S>
__device__ __forceinline__ void ColumnScales(const EncodeParams& params,
                                             const CopyTask& copy,
                                             const Strip& s, uint2 max,
                                             ColumnShared<S>* shared,
                                             float (&m)[kLaneCols]) {
  const std::byte* x = s.group->x + 2 * s.Offset(s.cols);
  if constexpr (S == Scaling::kTensor) {
    QUANTD_UNROLL
    for (int c = 0; c < kLaneCols; ++c) m[c] = *copy.tensor_scale;
  } else if constexpr (S == Scaling::kBlock) {
    shared->max[s.warp][s.lane] = max;
    __syncthreads();
    QUANTD_UNROLL
    for (int w = 0; w < kTileWarps; ++w) {
      const uint2 other = shared->max[w][s.lane];
      max.x = MaxOfWords(max.x, other.x);
      max.y = MaxOfWords(max.y, other.y);
    }
    const int64_t row = s.row - s.warp * kStripRows;
    const int64_t left = s.group->rows - row;
    x -= 2 * s.warp * kStripRows * s.cols;
    uint32_t stored[kLaneCols];
    QUANTD_UNROLL
    for (int c = 0; c < kLaneCols; ++c) {
      const BlockScale<Scalar> scale =
          SettleBlock<S>(params, MagnitudeOf(max, c), x + 2 * c, 2 * s.cols,
                         left < 128 ? left : 128);
      m[c] = scale.m;
      stored[c] = scale.stored;
    }
    if (s.warp != 0 || !s.inside) return;
    QUANTD_UNROLL
    for (int c = 0; c < kLaneCols; ++c) {
      stored[c] = StoredScale<Scalar>(params, stored[c]);
    }
    StoreGlobal(make_uint4(stored[0], stored[1], stored[2], stored[3]),
                copy.scale + 4 * (s.col + row / 128 * copy.scale_block));
  } else {
    uint32_t codes = 0;
    QUANTD_UNROLL
    for (int c = 0; c < kLaneCols; ++c) {
      const BlockScale<Scalar> scale = SettleBlock<S>(
          params, MagnitudeOf(max, c), x + 2 * c, 2 * s.cols, s.rows);
      m[c] = scale.m;
      codes |= scale.stored << (8 * c);
    }
    if (!copy.swizzled) {
      if (s.rows > 0 && s.inside) {
        StoreGlobal(codes, copy.scale + s.col + s.row / 32 * copy.scale_block);
      }
      return;
    }
    // A tile's scales are 512 bytes in a row, the padding's too, as zeros.
    auto* const bytes = reinterpret_cast<uint8_t*>(shared->swizzled);
    QUANTD_UNROLL
    for (int c = 0; c < kLaneCols; ++c) {
      bytes[SwizzledIndex(s.lane * kLaneCols + c, s.warp, 4)] =
          static_cast<uint8_t>(codes >> (8 * c));
    }
    __syncthreads();
    const int64_t first =
        SwizzledIndex(s.col - s.lane * kLaneCols,
                      (s.row - s.warp * kStripRows) / 32, copy.blocks);
    StoreGlobal(shared->swizzled[threadIdx.x],
                copy.scale + first + 4 * threadIdx.x);
  }
}

// --- codes ------------------------------------------------------------------

// Stores the transposed codes of a tile, W bytes at a time.
template <typename W, bool kFull, Scaling S>
__device__ __forceinline__ void StoreLines(const CopyTask& copy, int64_t line,
                                           int64_t position,
                                           const ColumnShared<S>& shared) {
  constexpr int kWidth = sizeof(W);
  constexpr int kPerLine = kTileSide / kWidth;
  constexpr int kLines = kTileThreads / kPerLine;  // at a time
  const int at = static_cast<int>(threadIdx.x) % kPerLine * kWidth;
  const int first = static_cast<int>(threadIdx.x) / kPerLine;
  const int64_t lines = copy.lines - line;
  if (!kFull && at >= copy.positions - position) return;
  const int64_t step = kLines * copy.data_line;
  std::byte* to = copy.data + (line + first) * copy.data_line + position + at;
#pragma unroll 8
  for (int l = first; l < kTileSide; l += kLines) {
    if (!kFull && l >= lines) return;
    const auto* const piece = reinterpret_cast<const std::byte*>(
        &shared.codes[l][ColumnShared<S>::Piece(l, at / 16)]);
    const W word = *reinterpret_cast<const W*>(piece + at % 16);
    if constexpr (kWidth == 1) {
      *reinterpret_cast<W*>(to) = word;
    } else {
      StoreGlobal(word, to);
    }
    to += step;
  }
}
template <bool kFull, Scaling S>
__device__ __forceinline__ void StoreLines(const CopyTask& copy, int64_t line,
                                           int64_t position,
                                           const ColumnShared<S>& shared) {
  const uintptr_t odd = reinterpret_cast<uintptr_t>(copy.data) |
                        static_cast<uintptr_t>(copy.data_line);
  if (odd % 16 == 0) {
    StoreLines<uint4, kFull>(copy, line, position, shared);
  } else if (odd % 4 == 0) {
    StoreLines<uint32_t, false>(copy, line, position, shared);
  } else {
    StoreLines<uint8_t, false>(copy, line, position, shared);
  }
}

// --- dbias ------------------------------------------------------------------

using ColumnSums = float4[kTileWarps - 1][32];

// Named barriers 1 to 3 join neighbouring warps. Their numbers are constants,
// so that a CTA takes no more of them.
template <int N>
__device__ __forceinline__ void Await() {
  asm volatile("bar.sync %0, 64;" ::"n"(N) : "memory");
}
template <int N>
__device__ __forceinline__ void Arrive() {
  asm volatile("bar.arrive %0, 64;" ::"n"(N) : "memory");
}
__device__ __forceinline__ void WaitForWarpAbove(int warp) {
  if (warp == 1) Await<1>();
  if (warp == 2) Await<2>();
  if (warp == 3) Await<3>();
}
__device__ __forceinline__ void LetWarpBelowGo(int warp) {
  if (warp == 0) Arrive<1>();
  if (warp == 1) Arrive<2>();
  if (warp == 2) Arrive<3>();
}

// Adds up the columns of a tile, row after row: a warp goes on with the sums of
// the warp above it.
__device__ __forceinline__ void SumColumns(Strip& s, ColumnSums& sums) {
  // Unpacks once more, rather than keep 128 numbers from before.
  QUANTD_UNROLL
  for (uint2& raw : s.raw) asm volatile("" : "+r"(raw.x), "+r"(raw.y));
  float4 sum = make_float4(0, 0, 0, 0);
  if (s.warp > 0) {
    WaitForWarpAbove(s.warp);
    sum = sums[s.warp - 1][s.lane];
  }
  // Rows that are not there add +0 to what is never -0.
  QUANTD_UNROLL
  for (int r = 0; r < kStripRows; ++r) {
    sum.x = sum.x + LowBf16(s.raw[r].x);
    sum.y = sum.y + HighBf16(s.raw[r].x);
    sum.z = sum.z + LowBf16(s.raw[r].y);
    sum.w = sum.w + HighBf16(s.raw[r].y);
  }
  if (s.warp < kTileWarps - 1) {
    sums[s.warp][s.lane] = sum;
    LetWarpBelowGo(s.warp);
  } else if (s.inside) {
    // Sums may start after two numbers of a table.
    auto* const to = reinterpret_cast<float2*>(
        s.group->partial + s.row / kTileSide * s.cols + s.col);
    to[0] = make_float2(sum.x, sum.y);
    to[1] = make_float2(sum.z, sum.w);
  }
}

// --- kernels and launcher ---------------------------------------------------

template <Scaling S, DType E, bool kRow, bool kCol, bool kSum, bool kFull>
__device__ __forceinline__ void EncodeTile(const EncodeArgs& a,
                                           const GroupTile& tile,
                                           ColumnShared<S>* shared,
                                           ColumnSums* sums) {
  Strip s = LoadStrip<kFull>(tile, a.list.cols);
  const CopyTask& rowwise = tile.group->rowwise;
  const CopyTask& columnwise = tile.group->columnwise;
  const int count = s.inside ? s.rows : 0;

  const uint2 max = ColumnMax(s);
  Report(SeenInStrip(s, MaxOfWords(max.x, max.y)), a.seen);
  float col_m[kLaneCols];
  if constexpr (kCol) {
    ColumnScales<S>(a.params, columnwise, s, max, shared, col_m);
  }
  RowScales<S> row_scales;
  if constexpr (kRow) {
    uint32_t row_max[kStripRows / 2];
    RowMax(s, row_max);
    row_scales.Settle(a.params, rowwise, s, row_max);
  }

  // Offsets of codes where they are not transposed.
  const int64_t first = s.Offset(a.list.cols);
  std::byte* row_to = rowwise.data + first;
  std::byte* col_to = columnwise.data + first;
  uint32_t words[kLaneCols][4];
  QUANTD_UNROLL
  for (int q = 0; q < kStripRows / 4; ++q) {
    float v[4][kLaneCols];
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint2 raw = s.raw[4 * q + i];
      v[i][0] = LowBf16(raw.x);
      v[i][1] = HighBf16(raw.x);
      v[i][2] = LowBf16(raw.y);
      v[i][3] = HighBf16(raw.y);
    }
    if constexpr (kRow) {
      float m[4];
      row_scales.Four(q, m);
      QUANTD_UNROLL
      for (int i = 0; i < 4; ++i) {
        const uint32_t word = CodesOf<E>(v[i][0] * m[i], v[i][1] * m[i],
                                         v[i][2] * m[i], v[i][3] * m[i]);
        if (4 * q + i < count) StoreGlobal(word, row_to);
        row_to += a.list.cols;
      }
    }
    if constexpr (kCol && S == Scaling::kMx) {
      QUANTD_UNROLL
      for (int i = 0; i < 4; ++i) {
        const uint32_t word =
            CodesOf<E>(v[i][0] * col_m[0], v[i][1] * col_m[1],
                       v[i][2] * col_m[2], v[i][3] * col_m[3]);
        if (4 * q + i < count) StoreGlobal(word, col_to);
        col_to += a.list.cols;
      }
    } else if constexpr (kCol) {
      QUANTD_UNROLL
      for (int c = 0; c < kLaneCols; ++c) {
        words[c][q % 4] = CodesOf<E>(v[0][c] * col_m[c], v[1][c] * col_m[c],
                                     v[2][c] * col_m[c], v[3][c] * col_m[c]);
        if (q % 4 != 3) continue;
        const int column = s.lane * kLaneCols + c;
        const int piece = ColumnShared<S>::Piece(column, s.warp * 2 + q / 4);
        shared->codes[column][piece] =
            make_uint4(words[c][0], words[c][1], words[c][2], words[c][3]);
      }
    }
  }
  if constexpr (kSum) SumColumns(s, *sums);
  if constexpr (kCol && S != Scaling::kMx) {
    __syncthreads();
    StoreLines<kFull>(columnwise, tile.col, tile.row, *shared);
  }
}

template <Scaling S, DType E, bool kRow, bool kCol, bool kSum>
__global__ void __launch_bounds__(kTileThreads, 4)
    EncodeTiles(const __grid_constant__ EncodeArgs a) {
  __shared__ ColumnShared<S> shared;
  __shared__ ColumnSums sums;
  const GroupTile tile = FindTile(a.list, blockIdx.x);
  if (tile.row + kTileSide <= tile.group->rows &&
      tile.col + kTileSide <= a.list.cols) {
    EncodeTile<S, E, kRow, kCol, kSum, true>(a, tile, &shared, &sums);
  } else {
    EncodeTile<S, E, kRow, kCol, kSum, false>(a, tile, &shared, &sums);
  }
}

// Each family in a translation unit of its own (encode_*fp8*.cu).
template <Scaling S>
cudaError_t LaunchEncodeTiles(const EncodeArgs& a, const Queue& queue) {
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(TileCount(a.list)), kTileThreads, 0,
             queue.stream>>>(a);
    return cudaGetLastError();
  };
  const auto sums = [&]<DType E, bool kRow, bool kCol>() {
    return a.dbias ? launch(EncodeTiles<S, E, kRow, kCol, true>)
                   : launch(EncodeTiles<S, E, kRow, kCol, false>);
  };
  const auto copies = [&]<DType E>() {
    if (!a.columnwise) return sums.template operator()<E, true, false>();
    if (!a.rowwise) return sums.template operator()<E, false, true>();
    return sums.template operator()<E, true, true>();
  };
  return a.params.element == DType::kE4M3
             ? copies.template operator()<DType::kE4M3>()
             : copies.template operator()<DType::kE5M2>();
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FP8_CUH_
