// 4over6 of values in registers: the better of two scales, by the errors of
// kernels/cuda/encode/nvfp4/four_over_six.cuh.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_PICK_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_PICK_CUH_

#include "kernels/cuda/encode/frame/cell.cuh"
#include "kernels/cuda/encode/nvfp4/code_tables.cuh"
#include "kernels/cuda/encode/nvfp4/four_over_six.cuh"

namespace quantd::cuda {

// Two candidates: that for a maximum of 4, and that for 6.
struct Candidates {
  uint32_t four;
  uint32_t six;
  Errors errors;
  bool near;  // the errors are but nearly right
};

template <bool kMse, bool kFast>
__device__ __forceinline__ void AddErrors(const float (&v)[kBlock],
                                          const ErrorTable& table,
                                          Candidates* c) {
  Candidate<kMse> four = {table.of[c->four]};
  Candidate<kMse> six = {table.of[c->six]};
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    const float x = fabsf(v[i]);
    const float target = kFast ? __fmul_rn(x, table.s) : x;
    four.Add(x, target);
    six.Add(x, target);
  }
  c->errors = {four.error, six.error};
}

// By the definition.
static __device__ __noinline__ Candidates
FindCandidatesRare(const EncodeParams& p, const LineScale<Scalar>& line,
                   const float* v, uint32_t clean) {
  Candidates c;
  FourOverSixScales<Scalar>(line, clean, &c.four, &c.six);
  c.errors = {FourOverSixError<Scalar>(p, line, v, c.four),
              FourOverSixError<Scalar>(p, line, v, c.six)};
  c.near = false;
  return c;
}

__device__ __forceinline__ Candidates
FindCandidates(const EncodeParams& kept, const EncodeParams& p,
               const LineScale<Scalar>& line, const ErrorTable& table,
               const float (&v)[kBlock], uint32_t max, uint32_t clean) {
  const float base = BaseOf(max, table.s);
  if (!table.ordinary || IsRare(max, base)) {
    float copy[kBlock];
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) copy[i] = v[i];
    return FindCandidatesRare(kept, line, copy, clean);
  }
  Candidates c = {ScaleForFour(base), ScaleForSix(base), {}, true};
  if (p.four_over_six == FourOverSix::kMse) {
    if (p.fast_error) {
      AddErrors<true, true>(v, table, &c);
    } else {
      AddErrors<true, false>(v, table, &c);
    }
  } else if (p.fast_error) {
    AddErrors<false, true>(v, table, &c);
  } else {
    AddErrors<false, false>(v, table, &c);
  }
  return c;
}

// Whether the candidates' errors, of so many lines with that largest magnitude,
// leave open which is the better one.
__device__ __forceinline__ bool InDoubt(const EncodeParams& p,
                                        const Candidates& c, uint32_t max,
                                        int lines) {
  const float magnitude = __uint_as_float(max);
  return c.near &&
         (p.four_over_six == FourOverSix::kMse
              ? InDoubt<true>(c.errors, magnitude, lines, p.fast_error)
              : InDoubt<false>(c.errors, magnitude, lines, p.fast_error));
}
// The errors as they are defined.
__device__ __forceinline__ Errors ErrorsInDoubt(const EncodeParams& p,
                                                const ErrorTable& table,
                                                const float (&v)[kBlock],
                                                const Candidates& c) {
  float copy[kBlock];
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) copy[i] = v[i];
  const auto error = [&](uint32_t code) {
    return p.four_over_six == FourOverSix::kMse
               ? ExactError<true>(copy, table, code, p.fast_error)
               : ExactError<false>(copy, table, code, p.fast_error);
  };
  return {error(c.four), error(c.six)};
}

// The code of the better one.
__device__ __forceinline__ uint32_t Better(const EncodeParams& p,
                                           const Candidates& c, uint32_t max) {
  return FourOverSixChoice<Scalar>(p, max, c.four, c.errors.four, c.six,
                                   c.errors.six);
}

// The scale of a block.
template <typename C>
__device__ __forceinline__ BlockScale<Scalar> PickScale(
    const EncodeParams& kept, const EncodeParams& p,
    const LineScale<Scalar>& line, const ErrorTable& table,
    const float (&v)[kBlock], uint32_t max, uint32_t clean) {
  Candidates c = FindCandidates(kept, p, line, table, v, max, clean);
  if (InDoubt(p, c, max, 1)) c.errors = ErrorsInDoubt(p, table, v, c);
  return C::Under(p, line, Better(p, c, max));
}

// The scale of a square of which sixteen lanes have a line each. All lanes must
// call this.
template <typename C>
__device__ __forceinline__ uint32_t
PickScaleOfSquare(const EncodeParams& kept, const EncodeParams& p,
                  const LineScale<Scalar>& line, const ErrorTable& table,
                  const float (&v)[kBlock], uint32_t max, uint32_t clean) {
  Candidates c = FindCandidates(kept, p, line, table, v, max, clean);
  const Errors own = c.errors;
  c.errors = SumOfLines(own);
  if (__any_sync(0xFFFFFFFFu, InDoubt(p, c, max, kBlock))) {
    c.errors = SumOfLines(c.near ? ErrorsInDoubt(p, table, v, c) : own);
  }
  return Better(p, c, max);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_PICK_CUH_
