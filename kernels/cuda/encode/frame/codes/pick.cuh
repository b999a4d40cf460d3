// 4over6 of values in registers: the better of two scales, by the errors that
// kernels/cuda/encode/nvfp4/four_over_six.cuh has exactly.
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
  float four_error;
  float six_error;
};

template <bool kMse, bool kFast>
__device__ __forceinline__ void AddErrors(const float (&v)[kBlock],
                                          const ErrorTable& table,
                                          Candidates* c) {
  Candidate<kMse, kFast> four = {table.of[c->four]};
  Candidate<kMse, kFast> six = {table.of[c->six]};
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    const float x = fabsf(v[i]);
    const float target = kFast ? __fmul_rn(x, table.s) : x;
    four.Add(x, target);
    six.Add(x, target);
  }
  c->four_error = four.error;
  c->six_error = six.error;
}

// By the definition.
static __device__ __noinline__ Candidates
FindCandidatesRare(const EncodeParams& p, const LineScale<Scalar>& line,
                   const float* v, uint32_t clean) {
  Candidates c;
  FourOverSixScales<Scalar>(line, clean, &c.four, &c.six);
  c.four_error = FourOverSixError<Scalar>(p, line, v, c.four);
  c.six_error = FourOverSixError<Scalar>(p, line, v, c.six);
  return c;
}

__device__ __forceinline__ Candidates
FindCandidates(const EncodeParams& kept, const EncodeParams& p,
               const LineScale<Scalar>& line, const ErrorTable& table,
               const float (&v)[kBlock], uint32_t max, uint32_t clean) {
  const float base = __fmul_rn(SixthOf(__uint_as_float(max)), table.s);
  if (!table.ordinary || IsRare(max, base)) {
    float copy[kBlock];
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) copy[i] = v[i];
    return FindCandidatesRare(kept, line, copy, clean);
  }
  Candidates c = {E4M3Of(__fmul_rn(base, 1.5f)), E4M3Of(base), 0.0f, 0.0f};
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

// The scale of a block.
template <typename C>
__device__ __forceinline__ BlockScale<Scalar> PickScale(
    const EncodeParams& kept, const EncodeParams& p,
    const LineScale<Scalar>& line, const ErrorTable& table,
    const float (&v)[kBlock], uint32_t max, uint32_t clean) {
  const Candidates c = FindCandidates(kept, p, line, table, v, max, clean);
  return C::Under(p, line,
                  FourOverSixChoice<Scalar>(p, max, c.four, c.four_error, c.six,
                                            c.six_error));
}

// The scale of a square of which sixteen lanes have a line each: errors are
// added in the tree of FourOverSixErrorOfSquare. All lanes must call this.
template <typename C>
__device__ __forceinline__ uint32_t
PickScaleOfSquare(const EncodeParams& kept, const EncodeParams& p,
                  const LineScale<Scalar>& line, const ErrorTable& table,
                  const float (&v)[kBlock], uint32_t max, uint32_t clean) {
  Candidates c = FindCandidates(kept, p, line, table, v, max, clean);
  __syncwarp();
  QUANTD_UNROLL
  for (int lanes = 8; lanes > 0; lanes /= 2) {
    c.four_error += __shfl_xor_sync(0xFFFFFFFFu, c.four_error, lanes);
    c.six_error += __shfl_xor_sync(0xFFFFFFFFu, c.six_error, lanes);
  }
  return FourOverSixChoice<Scalar>(p, max, c.four, c.four_error, c.six,
                                   c.six_error);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_PICK_CUH_
