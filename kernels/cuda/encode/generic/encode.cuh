// Quantization into any format, generic in the input type. Included by one
// translation unit for each type.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_GENERIC_ENCODE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_GENERIC_ENCODE_CUH_

#include "kernels/arith/decode.h"
#include "kernels/cuda/encode/generic/statistics.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tile/span.cuh"

namespace quantd::cuda {

// --- squares ----------------------------------------------------------------

// Blocks of a tile that lines share: 64 of 16 x 16, or the one of 128 x 128.
struct Squares {
  static constexpr int kMost = kTileSide / kBlock * (kTileSide / kBlock);
  // Errors of each line of each square under 4over6's candidates.
  using Errors = float[2][kMost][kBlock];

  uint32_t max[kMost];    // NaN above Inf
  uint32_t clean[kMost];  // NaN dropped
  uint32_t stored[kMost];

  static __device__ int Count(int block) {
    return kTileSide / block * (kTileSide / block);
  }
  // Of a place in the tile.
  static __device__ int Index(int block, int row, int col) {
    return row / block * (kTileSide / block) + col / block;
  }
};

// All threads must call these two.
template <DType D>
__device__ __forceinline__ void FindMaxima(const EncodeArgs& a,
                                           const GroupTile& tile,
                                           Squares* squares) {
  __syncthreads();  // nobody reads the last tile's
  if (threadIdx.x < Squares::kMost) {
    squares->max[threadIdx.x] = 0;
    squares->clean[threadIdx.x] = 0;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < TileSpan<kBlock>::kCount; i += kThreads) {
    const TileSpan<kBlock> span(false, i);
    float v[kBlock];
    LoadSpan<D>(*tile.group, a.list.cols, false, tile.row + span.line,
                tile.col + span.position, v);
    uint32_t max, clean;
    Maxima<Scalar>(v, kBlock, &max, &clean);
    const int s = Squares::Index(a.params.block, span.line, span.position);
    atomicMax(&squares->max[s], max);
    atomicMax(&squares->clean[s], clean);
  }
  __syncthreads();
}

// 4over6 of a square: the sums of its 16 lines, in halves.
__device__ __forceinline__ float SumOfLines(const float* lines) {
  float sum[kBlock];
  for (int i = 0; i < kBlock; ++i) sum[i] = lines[i];
  for (int half = kBlock / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) sum[i] = sum[i] + sum[i + half];
  }
  return sum[0];
}

// Scales for one copy. `errors` is there for 4over6.
template <DType D>
__device__ __forceinline__ void SettleSquares(const EncodeArgs& a,
                                              const GroupTile& tile,
                                              const LineScale<Scalar>& line,
                                              Squares* squares,
                                              Squares::Errors* errors) {
  const EncodeParams& p = a.params;
  const bool pick = p.four_over_six != FourOverSix::kOff;
  __syncthreads();  // nobody reads the other copy's
  if (pick) {
    for (int i = threadIdx.x; i < TileSpan<kBlock>::kCount; i += kThreads) {
      const TileSpan<kBlock> span(false, i);
      float v[kBlock];
      LoadSpan<D>(*tile.group, a.list.cols, false, tile.row + span.line,
                  tile.col + span.position, v);
      const int s = Squares::Index(kBlock, span.line, span.position);
      uint32_t four, six;
      FourOverSixScales<Scalar>(line, squares->clean[s], &four, &six);
      const int l = span.line % kBlock;
      (*errors)[0][s][l] = FourOverSixError<Scalar>(p, line, v, four);
      (*errors)[1][s][l] = FourOverSixError<Scalar>(p, line, v, six);
    }
    __syncthreads();
  }
  const int s = threadIdx.x;
  if (s < Squares::Count(p.block)) {
    uint32_t stored;
    if (pick) {
      uint32_t four, six;
      FourOverSixScales<Scalar>(line, squares->clean[s], &four, &six);
      stored = SumOfLines((*errors)[0][s]) < SumOfLines((*errors)[1][s]) ? four
                                                                         : six;
      if (p.propagate && squares->max[s] > kInfBits) stored = 0x7Fu;
    } else {
      stored =
          MakeBlockScale<Scalar>(p, line, squares->max[s], squares->clean[s])
              .stored;
    }
    squares->stored[s] = stored;
  }
  __syncthreads();
}

// --- spans ------------------------------------------------------------------

__device__ __forceinline__ LineScale<Scalar> LineScaleOf(const EncodeParams& p,
                                                         const CopyTask& copy,
                                                         int64_t line) {
  return MakeLineScale<Scalar>(
      p, AmaxOf(copy, line),
      copy.tensor_scale != nullptr ? *copy.tensor_scale : 1.0f);
}

// The scale of the block v, at (line, position) of the tile.
__device__ __forceinline__ BlockScale<Scalar> ScaleOf(
    const EncodeParams& p, const LineScale<Scalar>& line_scale,
    const Squares& squares, bool columnwise, int line, int position,
    const float* v) {
  if (p.scaling == Scaling::kTensor) {
    return UnderScale<Scalar>(p, line_scale, 0u);
  }
  if (p.square) {
    const int s = Squares::Index(p.block, columnwise ? position : line,
                                 columnwise ? line : position);
    return UnderScale<Scalar>(p, line_scale, squares.stored[s]);
  }
  uint32_t max, clean;
  Maxima<Scalar>(v, p.block, &max, &clean);
  if (p.four_over_six != FourOverSix::kOff) {
    return FourOverSixScale<Scalar>(p, line_scale, v, max, clean);
  }
  return MakeBlockScale<Scalar>(p, line_scale, max, clean);
}

__device__ __forceinline__ void StoreScale(const EncodeParams& p,
                                           const CopyTask& copy, int64_t line,
                                           int64_t number, uint32_t stored) {
  // A scale that lines share is the first one's to write.
  if (copy.scale_lines != 1 && line % copy.scale_lines != 0) return;
  const int64_t index = ScaleIndex(copy, line, number);
  if (p.scaling == Scaling::kBlock) {
    reinterpret_cast<uint32_t*>(copy.scale)[index] = stored;
  } else {
    copy.scale[index] = static_cast<std::byte>(stored);
  }
}

// Codes of 16 positions from `at` on, as far as the copy has them.
__device__ __forceinline__ void StoreCodes(const EncodeParams& p,
                                           const CopyTask& copy, int64_t line,
                                           int64_t at, uint32_t (&words)[4]) {
  if (p.element == DType::kE2M1x2) {
    if (copy.signs == nullptr) KeepCodes<Scalar>(copy.positions - at, words);
    // Lines are whole blocks: aligned.
    std::byte* to = copy.data + line * copy.data_line + at / 2;
    *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
    return;
  }
  std::byte* to = copy.data + line * copy.data_line + at * copy.data_position;
  const int64_t count = copy.padded - at;
  if (copy.data_position == 1 && count >= kBlock && IsAligned(to)) {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(words[0], words[1], words[2], words[3]);
    return;
  }
  for (int i = 0; i < kBlock && i < count; ++i) {
    to[i * copy.data_position] =
        static_cast<std::byte>(words[i / 4] >> (8 * (i % 4)));
  }
}

// 16 values into codes, and into the statistics where they are wanted.
struct Sixteen {
  const EncodeArgs& a;
  const CopyTask& copy;
  bool columnwise;
  int64_t line;  // of the group
  float amax;    // of the line

  // Bits depend on where the values are in the whole, groups or not.
  __device__ __forceinline__ RandomBytes<Scalar> Draw(const GroupTask& group,
                                                      int64_t at) const {
    const EncodeParams& p = a.params;
    const int64_t row = p.row_offset + group.row + (columnwise ? at : line);
    const int64_t col = p.column_offset + (columnwise ? line : at);
    return columnwise ? DrawBytes<Scalar>(p, true, col, row)
                      : DrawBytes<Scalar>(p, false, row, col);
  }

  __device__ __forceinline__ void Encode(const GroupTask& group, int64_t at,
                                         const float* v,
                                         const BlockScale<Scalar>& scale,
                                         Tally* tally, ErrorSums* sums) const {
    const EncodeParams& p = a.params;
    uint32_t words[4] = {};
    if (p.stochastic) {
      const RandomBytes<Scalar> random = Draw(group, at);
      EncodeSixteen<Scalar>(p, v, scale.m, &random, words);
    } else {
      EncodeSixteen<Scalar>(p, v, scale.m, nullptr, words);
    }
    StoreCodes(p, copy, line, at, words);
    if (sums == nullptr) return;
    const uint32_t stored = p.scaling == Scaling::kTensor
                                ? *reinterpret_cast<const uint32_t*>(copy.scale)
                                : StoredScale<Scalar>(p, scale.stored);
    const float factor = DecodeFactor<Scalar>(p.scaling, p.f6, amax, stored);
    float d[kBlock];
    DecodeSixteen<Scalar>(p.element, words, d);
    for (int i = 0; i < kBlock; ++i) d[i] = d[i] * factor;
    const int64_t count =
        (copy.signs != nullptr ? copy.padded : copy.positions) - at;
    AddErrors(ErrorsOfRun<Scalar>(v, scale.m, d, ClipBits(p.element), count),
              tally, sums);
  }
};

// One copy of a tile. Returns the Seen bits of its values before any rotation.
template <DType D, int N>
__device__ __forceinline__ uint32_t EncodeTile(
    const EncodeArgs& a, const GroupTile& tile, const CopyTask& copy,
    bool columnwise, const Squares& squares, Tally* tally, ErrorSums* sums) {
  const EncodeParams& p = a.params;
  const int block = p.block != 0 ? p.block : N;
  uint32_t seen = 0;
  for (int i = threadIdx.x; i < TileSpan<N>::kCount; i += kThreads) {
    const TileSpan<N> span(columnwise, i);
    const int64_t line = (columnwise ? tile.col : tile.row) + span.line;
    const int64_t first = (columnwise ? tile.row : tile.col) + span.position;
    if (line >= copy.lines || first >= copy.padded) continue;
    float v[N];
    LoadSpan<D>(*tile.group, a.list.cols, columnwise, line, first, v);
    uint32_t max, clean;
    Maxima<Scalar>(v, N, &max, &clean);
    seen |= SeenIn(max, clean);
    if (copy.signs != nullptr) RotateSpan(v, copy.rotation, copy.signs);
    const LineScale<Scalar> line_scale = LineScaleOf(p, copy, line);
    const Sixteen sixteen = {a, copy, columnwise, line, line_scale.amax};
    // A span may be longer than what is left of this copy.
    for (int b = 0; b < N && first + b < copy.padded; b += block) {
      const BlockScale<Scalar> scale =
          ScaleOf(p, line_scale, squares, columnwise, span.line,
                  span.position + b, v + b);
      if (p.scaling != Scaling::kTensor) {
        StoreScale(p, copy, line, (first + b) / block,
                   StoredScale<Scalar>(p, scale.stored));
      }
      for (int j = b; j < b + block && first + j < copy.padded; j += kBlock) {
        sixteen.Encode(*tile.group, first + j, v + j, scale, tally, sums);
      }
    }
  }
  return seen;
}

// --- kernel and launcher ----------------------------------------------------

// Both copies of each tile, so that the second one finds it in the cache.
template <DType D, int N>
__global__ void __launch_bounds__(kThreads)
    EncodeSpans(const __grid_constant__ EncodeArgs a) {
  __shared__ Squares squares;
  extern __shared__ __align__(16) std::byte more[];
  ErrorSums* const sums =
      a.sums != nullptr ? reinterpret_cast<ErrorSums*>(more) : nullptr;
  auto* const errors = reinterpret_cast<Squares::Errors*>(
      more + (sums != nullptr ? 2 * sizeof(ErrorSums) : 0));
  Tally tallies[2];
  if (sums != nullptr) {
    Clear(&sums[0]);
    Clear(&sums[1]);
    __syncthreads();
  }
  uint32_t seen = 0;
  const int64_t tiles = TileCount(a.list);
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const GroupTile tile = FindTile(a.list, t);
    if (a.params.square) FindMaxima<D>(a, tile, &squares);
#pragma unroll 1
    for (int direction = 0; direction < 2; ++direction) {
      const bool columnwise = direction == 1;
      const CopyTask copy =
          columnwise ? tile.group->columnwise : tile.group->rowwise;
      if (copy.data == nullptr) continue;
      if (a.params.square) {
        SettleSquares<D>(a, tile, LineScaleOf(a.params, copy, 0), &squares,
                         errors);
      }
      seen |= EncodeTile<D, N>(a, tile, copy, columnwise, squares,
                               &tallies[direction],
                               sums != nullptr ? &sums[direction] : nullptr);
    }
  }
  Report(seen, a.seen);
  if (sums == nullptr) return;
  for (int direction = 0; direction < 2; ++direction) {
    AddTally(tallies[direction], &sums[direction]);
  }
  __syncthreads();
  Flush(sums[0], &a.sums[0]);
  Flush(sums[1], &a.sums[1]);
}

template <DType D>
cudaError_t LaunchEncodeSpans(const EncodeArgs& a, const Queue& queue) {
  const EncodeParams& p = a.params;
  size_t shared = a.sums != nullptr ? 2 * sizeof(ErrorSums) : 0;
  if (p.square && p.four_over_six != FourOverSix::kOff) {
    shared += sizeof(Squares::Errors);
  }
  const int least = p.block > 0 ? p.block : kBlock;
  const int n = a.rotation > least ? a.rotation : least;
  return ForSpanSize(n, [&](auto size) {
    EncodeSpans<D, decltype(size)::value>
        <<<GridFor(TileCount(a.list), 8, queue), kThreads, shared,
           queue.stream>>>(a);
    return cudaGetLastError();
  });
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_GENERIC_ENCODE_CUH_
