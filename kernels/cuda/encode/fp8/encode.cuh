// Encodes FP8 with tensor scales or blocks of 1 x 128, and MXFP8, from bf16 and
// fp16. Writes the same bytes as EncodeSpans
// (kernels/cuda/encode/generic/encode.cuh) in less time.
// kernels/cuda/encode/fp8/NOTES.md gives the reasons for its design.
//
// A warp takes a strip of 32 rows and 128 columns of a group. A lane keeps 4
// columns of all 32 rows in registers, so that the input is read once for both
// copies and for dbias. Lanes beyond the matrix hold zeros.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FP8_ENCODE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FP8_ENCODE_CUH_

#include "kernels/cuda/encode/fp8/scales.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx/next_kernel.cuh"

namespace quantd::cuda {

// --- codes ------------------------------------------------------------------

// Stores the transposed codes of a tile, sizeof(W) bytes at a time.
template <typename W, bool kFull, Scaling S>
__device__ __forceinline__ void StoreLines(const CopyTask& copy, int64_t line,
                                           int64_t position,
                                           const ColumnShared<S>& shared) {
  constexpr int kWidth = sizeof(W);
  constexpr int kPerLine = kTileSide / kWidth;
  constexpr int kLines = kTileThreads / kPerLine;  // lines at a time
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

using ColumnSums = float4[kTileWarps + 1][32];

// Synchronize neighbouring warps by named barriers 1 to 3. The numbers are
// constants, so that a CTA reserves no more barriers. There are predicates
// instead of branches, because the compiler would duplicate all code after a
// branch. Arriving without waiting would save no time: when the warp above is
// done, the warp below already waits. (compute-sanitizer reports arriving as a
// race, and bar.sync as divergence.)
__device__ __forceinline__ void WaitForWarpAbove(int warp) {
  asm volatile(
      "{\n\t"
      ".reg .pred is;\n\t"
      "setp.eq.s32 is, %0, 1;\n\t"
      "@is barrier.cta.sync 1, 64;\n\t"
      "setp.eq.s32 is, %0, 2;\n\t"
      "@is barrier.cta.sync 2, 64;\n\t"
      "setp.eq.s32 is, %0, 3;\n\t"
      "@is barrier.cta.sync 3, 64;\n\t"
      "}" ::"r"(warp)
      : "memory");
}
__device__ __forceinline__ void LetWarpBelowGo(int warp) {
  asm volatile(
      "{\n\t"
      ".reg .pred is;\n\t"
      "setp.eq.s32 is, %0, 0;\n\t"
      "@is barrier.cta.sync 1, 64;\n\t"
      "setp.eq.s32 is, %0, 1;\n\t"
      "@is barrier.cta.sync 2, 64;\n\t"
      "setp.eq.s32 is, %0, 2;\n\t"
      "@is barrier.cta.sync 3, 64;\n\t"
      "}" ::"r"(warp)
      : "memory");
}

// Adds up the columns of a tile, row after row: each warp continues with the
// sums of the warp above it.
template <DType D>
__device__ __forceinline__ void SumColumns(Strip<D>& s, ColumnSums& sums) {
  // sums[0] holds the zeros with which warp 0 begins.
  if (s.warp == 0) sums[0][s.lane] = make_float4(0, 0, 0, 0);
  WaitForWarpAbove(s.warp);
  float4 sum = sums[s.warp][s.lane];
  // Missing rows add +0, which changes no sum, because no sum is -0.
  QUANTD_UNROLL
  for (int r = 0; r < kStripRows; ++r) {
    sum.x = sum.x + LowOf<D>(s.raw[r].x);
    sum.y = sum.y + HighOf<D>(s.raw[r].x);
    sum.z = sum.z + LowOf<D>(s.raw[r].y);
    sum.w = sum.w + HighOf<D>(s.raw[r].y);
  }
  sums[s.warp + 1][s.lane] = sum;
  LetWarpBelowGo(s.warp);
  // The address of the sums is aligned to two floats, not always to four.
  StoreGlobalIf(s.warp == kTileWarps - 1 && s.inside, sum,
                s.group->partial + s.row / kTileSide * s.cols + s.col);
  // Keeps the compiler from holding 128 unpacked numbers in registers.
  QUANTD_UNROLL
  for (uint2& raw : s.raw) asm volatile("" : "+r"(raw.x), "+r"(raw.y));
}

// --- kernel ---------------------------------------------------------------

// Rows and columns of a CTA, and the arrangement of its strips.
enum class Shape {
  kTile,   // 128 x 128, strips one below the other
  kStrip,  // 32 x 512, strips side by side
};
template <Shape F>
inline constexpr int kRowsOf = F == Shape::kTile ? kTileSide : kStripRows;
template <Shape F>
inline constexpr int kColsOf =
    F == Shape::kTile ? kTileSide : kTileSide* kTileWarps;

template <Scaling S, DType D, DType E, bool kRow, bool kCol, bool kSum, Shape F,
          bool kFull>
__device__ __forceinline__ void EncodeTile(const EncodeArgs& a,
                                           const GroupTile& tile,
                                           ColumnShared<S>* shared,
                                           ColumnSums* sums) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Strip<D> s = LoadStrip<D, kFull>(
      tile.group, a.list.cols,
      tile.row + (F == Shape::kTile ? warp * kStripRows : 0),
      tile.col + (F == Shape::kStrip ? warp * kTileSide : 0), warp);
  AwaitKernelBefore();
  const CopyTask& rowwise = tile.group->rowwise;
  const CopyTask& columnwise = tile.group->columnwise;
  const int count = s.inside ? s.rows : 0;

  const uint2 max = ColumnMax(s);
  Report(SeenInStrip(s, MaxOfWords<D>(max.x, max.y)), a.seen);
  float col_m[kLaneCols];
  if constexpr (kCol) {
    ColumnScales<S>(a.params, columnwise, s, max, shared, col_m);
  }
  RowScales<S, D> row_scales;
  if constexpr (kRow) {
    uint32_t row_max[kStripRows / 2];
    RowMax(s, row_max);
    row_scales.Settle(a.params, rowwise, s, row_max);
  }

  if constexpr (kSum) SumColumns(s, *sums);

  // The offset of the lane's elements, and of codes that are not transposed.
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
      v[i][0] = LowOf<D>(raw.x);
      v[i][1] = HighOf<D>(raw.x);
      v[i][2] = LowOf<D>(raw.y);
      v[i][3] = HighOf<D>(raw.y);
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
  if constexpr (kCol && S != Scaling::kMx) {
    __syncthreads();
    StoreLines<kFull>(columnwise, tile.col, tile.row, *shared);
  }
}

template <Scaling S, DType D, DType E, bool kRow, bool kCol, bool kSum, Shape F>
__global__ void __launch_bounds__(kTileThreads, 4)
    EncodeTiles(const __grid_constant__ EncodeArgs a) {
  static_assert(F == Shape::kTile || (S == Scaling::kMx && !kSum),
                "strips beside each other share nothing");
  __shared__ ColumnShared<S> shared;
  __shared__ ColumnSums sums;
  LetNextKernelStart();
  const uint32_t across = CtasAcross(a.list, kColsOf<F>);
  const uint32_t band = blockIdx.x / across;
  GroupTile tile = FindRows<kRowsOf<F>>(a, band);
  tile.col = int64_t{blockIdx.x - band * across} * kColsOf<F>;
  if constexpr (F == Shape::kStrip) {
    const int64_t first = tile.col + threadIdx.x / 32 * kTileSide;
    if (first >= a.list.cols) return;
  }
  if (tile.row + kRowsOf<F> <= tile.group->rows &&
      tile.col + kColsOf<F> <= a.list.cols) {
    EncodeTile<S, D, E, kRow, kCol, kSum, F, true>(a, tile, &shared, &sums);
  } else {
    EncodeTile<S, D, E, kRow, kCol, kSum, F, false>(a, tile, &shared, &sums);
  }
}

template <Scaling S, DType E, bool kRow, bool kCol, bool kSum,
          Shape F = Shape::kTile>
cudaError_t LaunchShape(const EncodeArgs& a, const Queue& queue) {
  const int64_t bands =
      F == Shape::kTile ? a.list.chunk_count : a.list.strip_count;
  const int64_t ctas = bands * CtasAcross(a.list, kColsOf<F>);
  return ForTwoByteType(a, [&](auto type) {
    return LaunchEarly(&EncodeTiles<S, type(), E, kRow, kCol, kSum, F>,
                       static_cast<unsigned>(ctas), {kTileThreads}, queue, a);
  });
}
// Calls `launch` with the type of the codes as a constant.
template <typename F>
cudaError_t ForElement(const EncodeArgs& a, const F& launch) {
  return a.params.element == DType::kE4M3
             ? launch(std::integral_constant<DType, DType::kE4M3>{})
             : launch(std::integral_constant<DType, DType::kE5M2>{});
}
template <Scaling S>
cudaError_t LaunchTiles(const EncodeArgs& a, const Queue& queue) {
  return ForElement(a, [&](auto element) {
    constexpr DType E = element();
    // A rowwise copy alone without dbias has faster kernels.
    if (a.first.columnwise.data == nullptr) {
      return LaunchShape<S, E, true, false, true>(a, queue);
    }
    const auto columns = [&](auto row) {
      return a.dbias ? LaunchShape<S, E, row(), true, true>(a, queue)
                     : LaunchShape<S, E, row(), true, false>(a, queue);
    };
    return a.first.rowwise.data == nullptr ? columns(std::false_type{})
                                           : columns(std::true_type{});
  });
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FP8_ENCODE_CUH_
