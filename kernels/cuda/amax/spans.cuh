// Finds the maxima of a tile of 128 x 128 and of its lines, span by span, for
// any dtype and rotation.
#ifndef QUANTD_KERNELS_CUDA_AMAX_SPANS_CUH_
#define QUANTD_KERNELS_CUDA_AMAX_SPANS_CUH_

#include "kernels/cuda/amax/reduce.cuh"
#include "kernels/cuda/tile/span.cuh"

namespace quantd::cuda {

// Raises a line's maximum to the maximum of one of its spans.
__device__ __forceinline__ void AddToLine(uint32_t max, uint32_t clean,
                                          bool propagate, uint32_t* line) {
  // The bits of NaN are above those of all numbers, so a NaN stays.
  RaiseTo(propagate && max > kInfBits ? kNanBits : clean, line);
}

__device__ __forceinline__ void Raise(uint32_t value, uint32_t* to) {
  *to = value > *to ? value : *to;
}

// Finds the plain and the rotated maxima of a tile's rowwise spans.
template <DType D, int N>
__device__ __forceinline__ void RowsOf(const SpanAmaxArgs& a,
                                       const GroupTile& tile, Found* found) {
  for (int i = threadIdx.x; i < TileSpan<N>::kCount; i += kThreads) {
    const TileSpan<N> span(false, i);
    const int64_t line = tile.row + span.line;
    const int64_t first = tile.col + span.position;
    if (line >= tile.group->rows || first >= a.list.cols) continue;
    const int64_t row = tile.group->row + line;
    float v[N];
    LoadSpan<D>(*tile.group, a.list.cols, false, line, first, v);
    uint32_t max, clean;
    FindMaxima<Scalar>(v, N, &max, &clean);
    Raise(clean, &found->plain);
    found->seen |= SeenIn(max, clean);
    if (a.rows != nullptr) AddToLine(max, clean, a.propagate, &a.rows[row]);
    if (a.row_signs == nullptr) continue;
    RotateSpan(v, N, a.row_signs);
    FindMaxima<Scalar>(v, N, &max, &clean);
    Raise(clean, &found->row_rht);
    found->seen |= max > kInfBits ? kSeenRowRhtNan : 0u;
    if (a.rotated_rows != nullptr) {
      AddToLine(max, clean, a.propagate, &a.rotated_rows[row]);
    }
  }
}

template <DType D, int N>
__device__ __forceinline__ void ColumnsOf(const SpanAmaxArgs& a,
                                          const GroupTile& tile, Found* found) {
  for (int i = threadIdx.x; i < TileSpan<N>::kCount; i += kThreads) {
    const TileSpan<N> span(true, i);
    const int64_t line = tile.col + span.line;
    const int64_t first = tile.row + span.position;
    if (line >= a.list.cols || first >= tile.group->rows) continue;
    const int64_t column = tile.number * a.list.cols + line;
    float v[N];
    LoadSpan<D>(*tile.group, a.list.cols, true, line, first, v);
    uint32_t max, clean;
    if (a.columns != nullptr) {
      FindMaxima<Scalar>(v, N, &max, &clean);
      AddToLine(max, clean, a.propagate, &a.columns[column]);
    }
    if (a.col_signs == nullptr) continue;
    RotateSpan(v, N, a.col_signs);
    FindMaxima<Scalar>(v, N, &max, &clean);
    Raise(clean, &found->col_rht);
    found->seen |= max > kInfBits ? kSeenColRhtNan : 0u;
    if (a.rotated_columns != nullptr) {
      AddToLine(max, clean, a.propagate, &a.rotated_columns[column]);
    }
  }
}

// Finds the maxima of a tile that the arguments ask for. Returns this thread's
// Seen bits. All threads of the CTA must call this.
template <DType D, int N>
__device__ __forceinline__ uint32_t FindInTile(const SpanAmaxArgs& a,
                                               const GroupTile& tile) {
  Found found = {};
  RowsOf<D, N>(a, tile, &found);
  if (a.columns != nullptr || a.col_signs != nullptr) {
    ColumnsOf<D, N>(a, tile, &found);
  }
  Found* const to = &a.found[tile.number];
  ReduceTo(found.plain, &to->plain);
  if (a.row_signs != nullptr) ReduceTo(found.row_rht, &to->row_rht);
  if (a.col_signs != nullptr) ReduceTo(found.col_rht, &to->col_rht);
  Report(found.seen, to);
  return found.seen;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_AMAX_SPANS_CUH_
