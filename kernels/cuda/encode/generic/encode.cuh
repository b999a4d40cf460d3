// Encodes any format. One source for each input type includes this.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_GENERIC_ENCODE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_GENERIC_ENCODE_CUH_

#include "kernels/arith/encode.h"
#include "kernels/cuda/encode/generic/store.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tile/span.cuh"

namespace quantd::cuda {

// --- squares ----------------------------------------------------------------

// The square blocks of a tile: 64 of 16 x 16, or one of 128 x 128.
struct Squares {
  static constexpr int kMost = kTileSide / kBlock * (kTileSide / kBlock);
  // Errors of each line of each square with one candidate scale.
  using Errors = float[kMost][kBlock];

  uint32_t max[kMost];    // maxima, with NaN above Inf
  uint32_t clean[kMost];  // maxima without NaN
  uint32_t stored[kMost];

  static __device__ int Count(int block) {
    return kTileSide / block * (kTileSide / block);
  }
  // The index of the square that contains element (row, col) of the tile.
  static __device__ int Index(int block, int row, int col) {
    return row / block * (kTileSide / block) + col / block;
  }
};

// Finds the maxima of a tile's squares. All threads of the CTA must call this.
template <DType D>
__device__ __forceinline__ void FindSquareMaxima(const EncodeArgs& a,
                                                 const GroupTile& tile,
                                                 Squares* squares) {
  __syncthreads();  // until the last tile's maxima have been read
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
    FindMaxima<Scalar>(v, kBlock, &max, &clean);
    const int s = Squares::Index(a.params.block, span.line, span.position);
    atomicMax(&squares->max[s], max);
    atomicMax(&squares->clean[s], clean);
  }
  __syncthreads();
}

// Chooses the scales of one copy's squares. `errors` has an item for each
// candidate scale. All threads of the CTA must call this.
template <DType D, bool kOther>
__device__ __forceinline__ void SettleSquares(const EncodeArgs& a,
                                              const GroupTile& tile,
                                              const LineScale<Scalar>& line,
                                              Squares* squares,
                                              Squares::Errors* errors) {
  const EncodeParams& p = a.params;
  const bool pick = TriesScales(p);
  __syncthreads();  // until the other copy's scales have been read
  if (pick) {
    for (int i = threadIdx.x; i < TileSpan<kBlock>::kCount; i += kThreads) {
      const TileSpan<kBlock> span(false, i);
      float v[kBlock];
      LoadSpan<D>(*tile.group, a.list.cols, false, tile.row + span.line,
                  tile.col + span.position, v);
      const int s = Squares::Index(kBlock, span.line, span.position);
      for (int c = 0; c < CandidateCount(p); ++c) {
        errors[c][s][span.line % kBlock] = FourOverSixError<Scalar>(
            p, line, v, CandidateScale<Scalar>(p, line, squares->clean[s], c));
      }
    }
    __syncthreads();
  }
  const int s = threadIdx.x;
  if (s < Squares::Count(p.block)) {
    squares->stored[s] = ScaleOfSquare<Scalar, kOther>(
        p, line, squares->max[s], squares->clean[s], [&](int i, uint32_t) {
          return FourOverSixErrorOfSquare(errors[i][s]);
        });
  }
  __syncthreads();
}

// --- spans ------------------------------------------------------------------

// The output of EncodeSpan for a line, which goes to the copy. Other kernels
// compute statistics from the copy later (kernels/cuda/errors).
struct SpanOut {
  const EncodeParams& params;
  const CopyTask& copy;
  const Squares& squares;
  bool columnwise;
  int64_t line;   // within the group
  int64_t begin;  // the tile's first position
  int in_tile;    // index of the line in the tile

  __device__ __forceinline__ uint32_t Settled(int64_t position) const {
    const int p = static_cast<int>(position - begin);
    return squares.stored[Squares::Index(params.block, columnwise ? p : in_tile,
                                         columnwise ? in_tile : p)];
  }
  __device__ __forceinline__ void StoreScale(int64_t block,
                                             uint32_t stored) const {
    cuda::StoreScale(params, copy, line, block, stored);
  }
  __device__ __forceinline__ void StoreCodes(int64_t position,
                                             const uint32_t* words) const {
    cuda::StoreCodes(params, copy, line, position, words);
  }
  __device__ __forceinline__ bool counts() const { return false; }
  __device__ __forceinline__ void Count(const RunErrors<Scalar>&) const {}
};

// Encodes one copy of a tile. Returns the Seen bits of its values before any
// rotation.
template <DType D, int N, bool kOther>
__device__ __forceinline__ uint32_t EncodeTile(const EncodeArgs& a,
                                               const GroupTile& tile,
                                               const CopyTask& copy,
                                               bool columnwise,
                                               const Squares& squares) {
  const EncodeParams& p = a.params;
  uint32_t seen = 0;
  for (int i = threadIdx.x; i < TileSpan<N>::kCount; i += kThreads) {
    const TileSpan<N> span(columnwise, i);
    const int64_t line = (columnwise ? tile.col : tile.row) + span.line;
    const int64_t first = (columnwise ? tile.row : tile.col) + span.position;
    if (line >= copy.lines || first >= copy.padded) continue;
    float v[N];
    LoadSpan<D>(*tile.group, a.list.cols, columnwise, line, first, v);
    uint32_t max, clean;
    FindMaxima<Scalar>(v, N, &max, &clean);
    seen |= SeenIn(max, clean);
    if (copy.signs != nullptr) RotateSpan(v, copy.rotation, copy.signs);
    const SpanOut out = {
        p, copy, squares, columnwise, line, first - span.position, span.line};
    EncodeSpan<Scalar, kOther>(
        p,
        {copy, columnwise, copy.signs != nullptr, tile.group->row, line, first},
        LineScaleOf<kOther>(p, copy, line), v, N, out);
  }
  return seen;
}

// --- kernel and launcher ----------------------------------------------------

// Encodes both copies of each tile, so that the second copy finds the tile in
// the cache. kOther is Numerics::other: if it is false, the compiler leaves out
// the code of other profiles.
template <DType D, int N, bool kOther>
__global__ void __launch_bounds__(kThreads)
    EncodeSpans(const __grid_constant__ EncodeArgs a) {
  __shared__ Squares squares;
  extern __shared__ __align__(16) std::byte more[];
  auto* const errors = reinterpret_cast<Squares::Errors*>(more);
  uint32_t seen = 0;
  const int64_t tiles = TileCount(a.list);
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const GroupTile tile = FindTile(a.list, t);
    if (a.params.square) FindSquareMaxima<D>(a, tile, &squares);
#pragma unroll 1
    for (int direction = 0; direction < 2; ++direction) {
      const bool columnwise = direction == 1;
      const CopyTask copy =
          columnwise ? tile.group->columnwise : tile.group->rowwise;
      if (copy.data == nullptr) continue;
      if (a.params.square) {
        SettleSquares<D, kOther>(
            a, tile, LineScaleOf<kOther>(a.params, copy, 0), &squares, errors);
      }
      seen |= EncodeTile<D, N, kOther>(a, tile, copy, columnwise, squares);
    }
  }
  Report(seen, a.seen);
}

template <DType D>
cudaError_t LaunchEncodeSpansOf(const EncodeArgs& a, const Queue& queue) {
  const EncodeParams& p = a.params;
  const size_t shared = p.square && TriesScales(p)
                            ? CandidateCount(p) * sizeof(Squares::Errors)
                            : 0;
  const int least = p.block > 0 ? p.block : kBlock;
  const int n = a.rotation > least ? a.rotation : least;
  return ForSpanSize(n, [&](auto size) {
    constexpr int kSize = decltype(size)::value;
    const auto grid = GridFor(TileCount(a.list), 8, queue);
    if (p.numerics.other) {
      EncodeSpans<D, kSize, true><<<grid, kThreads, shared, queue.stream>>>(a);
    } else {
      EncodeSpans<D, kSize, false><<<grid, kThreads, shared, queue.stream>>>(a);
    }
    return cudaGetLastError();
  });
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_GENERIC_ENCODE_CUH_
