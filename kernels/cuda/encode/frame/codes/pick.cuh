// 4over6 and scale search for values in registers. Picks the best of two or six
// scales by the errors of kernels/cuda/encode/nvfp4/four_over_six.cuh.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_PICK_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_PICK_CUH_

#include "kernels/cuda/encode/frame/cell.cuh"
#include "kernels/cuda/encode/nvfp4/code_tables.cuh"
#include "kernels/cuda/encode/nvfp4/four_over_six.cuh"

namespace quantd::cuda {

// Two candidate scales, which map the maximum to 4 and to 6, and their errors.
struct Candidates {
  uint32_t four;
  uint32_t six;
  Errors errors;
};

// The approximate errors of a block with two candidate scales.
template <bool kMse>
__device__ __forceinline__ Errors NearErrors(const float (&v)[kBlock],
                                             const ErrorTable& table,
                                             float times, uint32_t for_four,
                                             uint32_t for_six) {
  Candidate<kMse> four = {table.of[for_four]};
  Candidate<kMse> six = {table.of[for_six]};
  QUANTD_UNROLL
  for (int h = 0; h < kBlock; h += 8) {
    float x[8];
    float target[8];
    QUANTD_UNROLL
    for (int i = 0; i < 8; ++i) {
      x[i] = fabsf(v[h + i]);
      target[i] = __fmul_rn(x[i], times);
    }
    four.Add(x, target);
    six.Add(x, target);
  }
  return {four.error, six.error};
}

// Finds the candidates by the generic functions.
static __device__ __noinline__ Candidates
FindCandidatesRare(const EncodeParams& p, const LineScale<Scalar>& line,
                   const float* v, uint32_t clean) {
  Candidates c;
  FourOverSixScales<Scalar>(line, clean, &c.four, &c.six);
  c.errors = {FourOverSixError<Scalar>(p, line, v, c.four),
              FourOverSixError<Scalar>(p, line, v, c.six)};
  return c;
}

// FourOverSixError, for any values.
static __device__ __noinline__ float ErrorOfRare(const EncodeParams& p,
                                                 const LineScale<Scalar>& line,
                                                 const float* v,
                                                 uint32_t code) {
  return FourOverSixError<Scalar>(p, line, v, code);
}

// Like PickCode, for scale search.
template <bool kSquare>
__device__ __forceinline__ uint32_t SearchCode(const EncodeParams& kept,
                                               const EncodeParams& p,
                                               const LineScale<Scalar>& line,
                                               const ErrorTable& table,
                                               const float (&v)[kBlock],
                                               uint32_t max, uint32_t clean) {
  const bool known = table.ordinary && !IsRare(max, BaseOf(max, table.s));
  return BestScale<Scalar>(p, line, max, clean, [&](int, uint32_t code) {
    float error;
    if (known) {
      error = ExactError<true, true>(v, table, code, false);
    } else {
      float copy[kBlock];
      QUANTD_UNROLL
      for (int i = 0; i < kBlock; ++i) copy[i] = v[i];
      error = ErrorOfRare(kept, line, copy, code);
    }
    return kSquare ? SumOfLines(error) : error;
  });
}

// The scale code of the best candidate for a block whose largest magnitude is
// `max`. For a square, sixteen lanes have a line each, and all lanes must call
// this.
template <typename C>
__device__ __forceinline__ uint32_t PickCode(const EncodeParams& kept,
                                             const EncodeParams& p,
                                             const LineScale<Scalar>& line,
                                             const ErrorTable& table,
                                             const float (&v)[kBlock],
                                             uint32_t max, uint32_t clean) {
  constexpr bool kSquare = C::kSquare;
  if constexpr (C::kSearches) {
    return SearchCode<kSquare>(kept, p, line, table, v, max, clean);
  }
  const float base = BaseOf(max, table.s);
  const bool known = table.ordinary && !IsRare(max, base);
  const bool fast = p.nvfp4.fast_error;
  const bool mse = p.nvfp4.four_over_six == FourOverSix::kMse;
  const float times = fast ? table.s : 1.0f;
  Candidates c = {ScaleForFour(base), ScaleForSix(base), {}};
  c.errors = mse ? NearErrors<true>(v, table, times, c.four, c.six)
                 : NearErrors<false>(v, table, times, c.four, c.six);
  if constexpr (kSquare) c.errors = SumOfLines(c.errors);
  const float magnitude = __uint_as_float(max);
  constexpr int kLines = kSquare ? kBlock : 1;
  bool open =
      !known || (mse ? InDoubt<true>(c.errors, magnitude, kLines, fast)
                     : InDoubt<false>(c.errors, magnitude, kLines, fast));
  if constexpr (kSquare) open = __any_sync(0xFFFFFFFFu, open);
  if (open) {
    c.errors = mse ? ExactErrors<true>(v, table, c.four, c.six, fast)
                   : ExactErrors<false>(v, table, c.four, c.six, fast);
    if (!known) {
      float copy[kBlock];
      QUANTD_UNROLL
      for (int i = 0; i < kBlock; ++i) copy[i] = v[i];
      c = FindCandidatesRare(kept, line, copy, clean);
    }
    if constexpr (kSquare) c.errors = SumOfLines(c.errors);
  }
  return FourOverSixChoice<Scalar>(p, max, c.four, c.errors.four, c.six,
                                   c.errors.six);
}

// The scale of a block.
template <typename C>
__device__ __forceinline__ BlockScale<Scalar> PickScale(
    const EncodeParams& kept, const EncodeParams& p,
    const LineScale<Scalar>& line, const ErrorTable& table,
    const float (&v)[kBlock], uint32_t max, uint32_t clean) {
  return C::Under(p, line, PickCode<C>(kept, p, line, table, v, max, clean));
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_PICK_CUH_
