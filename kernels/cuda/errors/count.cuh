// Computes error statistics of finished copies. Reads values, codes and scales
// again and counts each run of sixteen. One source for each input type includes
// this.
#ifndef QUANTD_KERNELS_CUDA_ERRORS_COUNT_CUH_
#define QUANTD_KERNELS_CUDA_ERRORS_COUNT_CUH_

#include "kernels/cuda/decode/stored.cuh"
#include "kernels/cuda/encode/generic/store.cuh"
#include "kernels/cuda/errors/run.cuh"
#include "kernels/cuda/errors/totals.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tile/span.cuh"

namespace quantd::cuda {

// Values that all blocks with the same amax share.
template <bool kOther>
struct UnderAmax {
  LineScale<Scalar> scale;
  Nvfp4Decode<Scalar> decode;  // unused if kOther

  __device__ __forceinline__ UnderAmax(const EncodeParams& p,
                                       const CopyTask& copy, int64_t line)
      : scale(LineScaleOf<kOther>(p, copy, line)),
        decode(MakeLineDecode<Scalar>(p.scaling, scale.amax, p.range)) {}

  __device__ __forceinline__ float Factor(const EncodeParams& p,
                                          uint32_t stored) const {
    return kOther ? FactorOf<Scalar, true>(p, scale, stored)
                  : DecodeFactor<Scalar>(p.scaling, decode, stored);
  }
};

// Values that all runs of a line share.
template <bool kOther>
struct LineOfRuns {
  const EncodeParams& p;
  const CopyTask& copy;
  int64_t line;
  const UnderAmax<kOther>& under;

  // Counts sixteen positions from `at` on. `run` holds their values.
  template <bool kExact>
  __device__ __forceinline__ void Count(int64_t at, Run* run,
                                        ErrorTotals* totals,
                                        ErrorSums* shared) const {
    LoadCodes(p.element, copy, line, at, run->words);
    if (kOther && p.numerics.high_first) {
      run->words[0] = SwapNibbles<Scalar>(run->words[0]);
      run->words[1] = SwapNibbles<Scalar>(run->words[1]);
    }
    run->stored =
        HasBlockScales(p.scaling)
            ? LoadScale(p.scale, copy, ScaleIndex(copy, line, at / p.block))
            : StoredScale<Scalar, kOther>(p, Scalar::Bits(under.scale.scale));
    run->count = (copy.signs != nullptr ? copy.padded : copy.positions) - at;
    totals->Add(ErrorsOf<kOther, kExact>(p, under.scale, *run,
                                         under.Factor(p, run->stored)),
                shared);
  }
};

// Counts the errors of one or two copies. With two copies, neighbouring CTAs
// count the same tile of different copies, and the second one finds it in the
// cache.
template <DType D, int N, bool kOther>
__global__ void __launch_bounds__(kThreads, 3)
    CountErrorsOfSpans(const __grid_constant__ EncodeArgs a) {
  __shared__ ErrorSums shared;
  Clear(&shared);
  __syncthreads();
  const EncodeParams& p = a.params;
  const bool both =
      a.first.rowwise.data != nullptr && a.first.columnwise.data != nullptr;
  const bool columnwise =
      both ? blockIdx.x % 2 != 0 : a.first.columnwise.data != nullptr;
  const int64_t first = both ? blockIdx.x / 2 : blockIdx.x;
  const int64_t step = both ? gridDim.x / 2 : gridDim.x;
  ErrorTotals totals;
  const int64_t tiles = TileCount(a.list);
  for (int64_t t = first; t < tiles; t += step) {
    const GroupTile tile = FindTile(a.list, t);
    const CopyTask& copy =
        columnwise ? tile.group->columnwise : tile.group->rowwise;
    UnderAmax<kOther> under(p, copy, 0);
#pragma unroll 1
    for (int i = threadIdx.x; i < TileSpan<N>::kCount; i += kThreads) {
      const TileSpan<N> span(columnwise, i);
      const int64_t line = (columnwise ? tile.col : tile.row) + span.line;
      const int64_t at = (columnwise ? tile.row : tile.col) + span.position;
      if (line >= copy.lines || at >= copy.padded) continue;
      float v[N];
      LoadSpan<D>(*tile.group, a.list.cols, columnwise, line, at, v);
      // Copies with kOther are never rotated.
      if constexpr (!kOther) {
        if (copy.signs != nullptr) RotateSpan(v, copy.rotation, copy.signs);
      }
      if (copy.amax_line != 0) under = UnderAmax<kOther>(p, copy, line);
      const LineOfRuns<kOther> runs = {p, copy, line, under};
#pragma unroll 1
      for (int j = 0; j < N; j += kRun) {
        if (at + j >= copy.padded) break;
        Run run = {};
        QUANTD_UNROLL
        for (int k = 0; k < kRun; ++k) run.v[k] = v[j + k];
        runs.template Count<D != DType::kF32>(at + j, &run, &totals, &shared);
      }
    }
  }
  totals.Flush(&shared);
  __syncthreads();
  AddTotals(shared, &a.sums[columnwise]);
}

template <DType D>
cudaError_t LaunchCountErrorsOfSpansOf(const EncodeArgs& a,
                                       const Queue& queue) {
  // The grid is even, so that each copy has half of the CTAs.
  const unsigned grid = 2 * GridFor(TileCount(a.list), 4, queue);
  const auto launch = [&](auto kernel) {
    kernel<<<grid, kThreads, 0, queue.stream>>>(a);
    return cudaGetLastError();
  };
  // Copies with kOther are never rotated.
  if (a.params.numerics.other) return launch(CountErrorsOfSpans<D, 16, true>);
  if (a.rotation <= 16) return launch(CountErrorsOfSpans<D, 16, false>);
  if (a.rotation <= 64) return launch(CountErrorsOfSpans<D, 64, false>);
  return launch(CountErrorsOfSpans<D, 128, false>);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ERRORS_COUNT_CUH_
