// Counts the errors of one run of sixteen by kernels/arith/run_errors.h, after
// reading the run again. Used for runs that are not whole or not ordinary.
#ifndef QUANTD_KERNELS_CUDA_ERRORS_BY_DEFINITION_CUH_
#define QUANTD_KERNELS_CUDA_ERRORS_BY_DEFINITION_CUH_

#include "kernels/arith/encode.h"
#include "kernels/cuda/decode/stored.cuh"
#include "kernels/cuda/encode/generic/store.cuh"
#include "kernels/cuda/errors/totals.cuh"
#include "kernels/cuda/ptx/magnitude.cuh"
#include "kernels/cuda/tile/span.cuh"

namespace quantd::cuda {

__device__ __forceinline__ void AddSquares(const SquareSum<Scalar>& sum,
                                           ErrorSums::Squares* shared) {
  const SquareTerm term = TermOf(sum.bits, sum.exponent);
  AddTo(&shared->bins[term.bin], term.value);
}

// Counts up to sixteen positions from `at` on in a copy that is not rotated.
template <DType D>
__device__ __noinline__ void CountByDefinition(const EncodeParams& p,
                                               const GroupTask& group,
                                               bool columnwise, int64_t line,
                                               int64_t at, ErrorSums* shared) {
  const CopyTask& copy = columnwise ? group.columnwise : group.rowwise;
  if (line >= copy.lines || at >= copy.positions) return;
  const int64_t count = copy.positions - at;
  float v[kRun];
  LoadSpan<D>(group, p.cols, columnwise, line, at, v);
  const LineScale<Scalar> scale = LineScaleOf<false>(p, copy, line);
  const uint32_t stored =
      HasBlockScales(p.scaling)
          ? LoadScale(p.scale, copy, ScaleIndex(copy, line, at / p.block))
          : StoredScale<Scalar>(p, Scalar::Bits(scale.scale));
  const float factor = FactorOf<Scalar, false>(p, scale, stored);
  float largest = 0.0f;
  QUANTD_UNROLL
  for (int i = 0; i < kRun; ++i) largest = LargerMagnitude(largest, v[i]);
  if (largest == 0.0f && IsFinite(factor)) {
    AddTo(&shared->elements, count < kRun ? count : kRun);
    return;
  }
  uint32_t words[4] = {};
  LoadCodes(p.element, copy, line, at, words);
  const auto run = ErrorsUnder<Scalar, false>(
      p, factor, MultiplierOf<Scalar>(p, scale, stored), v, words, count);
  AddTo(&shared->elements, run.elements);
  AddTo(&shared->clipped, run.clipped);
  AddTo(&shared->flushed, run.flushed);
  if (run.max_error != 0) atomicMax(&shared->max_error, run.max_error);
  AddSquares(run.signal, &shared->signal);
  AddSquares(run.noise, &shared->noise);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ERRORS_BY_DEFINITION_CUH_
