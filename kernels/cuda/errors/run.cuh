// Computes the errors of a run of sixteen encoded values, equal to those of
// kernels/arith/run_errors.h. An ordinary run takes a third of that file's
// instructions, and every other run uses its functions.
#ifndef QUANTD_KERNELS_CUDA_ERRORS_RUN_CUH_
#define QUANTD_KERNELS_CUDA_ERRORS_RUN_CUH_

#include "kernels/arith/encode.h"
#include "kernels/cuda/decode/stored.cuh"
#include "kernels/cuda/ptx/magnitude.cuh"
#include "kernels/cuda/tile/element.cuh"

namespace quantd::cuda {

// A run of a copy.
struct Run {
  float v[kRun];      // values before quantization; 0 for missing ones
  uint32_t words[4];  // codes, a result of EncodeSixteen
  uint32_t stored;    // scale, a result of StoredScale
  int64_t count;      // positions that exist
};

// The number of codes in the words that are 0, of either sign.
__device__ __forceinline__ uint32_t ZerosOf(const uint32_t (&words)[4],
                                            bool fp8) {
  uint32_t others = 0;
  if (fp8) {
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t sum = (words[i] & 0x7F7F7F7Fu) + 0x7F7F7F7Fu;
      others += static_cast<uint32_t>(__popc(sum & 0x80808080u));
    }
  } else {
    QUANTD_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint32_t sum = (words[i] & 0x77777777u) + 0x77777777u;
      others += static_cast<uint32_t>(__popc(sum & 0x88888888u));
    }
  }
  return kRun - others;
}

// Adds squares in the order of SumOfSquares. kExact says that squares are
// exact, so that one fused operation can square and add the second value of a
// pair.
template <bool kExact>
__device__ __forceinline__ float TreeOfSquares(const float (&x)[kRun]) {
  float sums[kRun / 2];
  QUANTD_UNROLL
  for (int i = 0; i < kRun / 2; ++i) {
    const float first = x[2 * i] * x[2 * i];
    sums[i] = kExact ? __fmaf_rn(x[2 * i + 1], x[2 * i + 1], first)
                     : first + x[2 * i + 1] * x[2 * i + 1];
  }
  QUANTD_UNROLL
  for (int n = 1; n < kRun / 2; n *= 2) {
    QUANTD_UNROLL
    for (int i = 0; i < kRun / 2; i += 2 * n) sums[i] = sums[i] + sums[i + n];
  }
  return sums[0];
}

// Computes the errors by kernels/arith/run_errors.h.
template <bool kOther>
__device__ __noinline__ void ErrorsByDefinition(const EncodeParams& p,
                                                const LineScale<Scalar>& line,
                                                const Run& run,
                                                RunErrors<Scalar>* errors) {
  *errors = ErrorsUnder<Scalar, kOther>(
      p, FactorOf<Scalar, kOther>(p, line, run.stored),
      MultiplierOf<Scalar, kOther>(p, line, run.stored), run.v, run.words,
      run.count);
}
// The number of values that would have rounded beyond the largest code.
template <bool kOther>
__device__ __noinline__ uint32_t Clipped(const EncodeParams& p,
                                         const LineScale<Scalar>& line,
                                         const Run& run) {
  const float m = MultiplierOf<Scalar, kOther>(p, line, run.stored);
  uint32_t clipped = 0;
  for (const float v : run.v) {
    const float scaled = Scaled<Scalar, kOther>(p, v, m);
    clipped += Scalar::Bits(fabsf(scaled)) >= p.clip ? 1u : 0u;
  }
  return clipped;
}

// Errors of a run. `factor` is the factor of its scale. kExact says that
// squares of the values are exact, as those of bf16 and fp16 are.
//
// Values and errors are multiplied by a power of two that makes the largest
// value at least 2 and less than 4. This changes no difference, and no sum if
// the largest error is then 0 or at least 2^-13. (A square that underflows is
// below 2^-126, and the whole sum is at least 2^-26. The square could only
// change a partial sum of at most 2^25 times its size, and at most four
// additions follow that one.)
template <bool kOther, bool kExact>
__device__ __forceinline__ RunErrors<Scalar> ErrorsOf(
    const EncodeParams& p, const LineScale<Scalar>& line, const Run& run,
    float factor) {
  RunErrors<Scalar> r = {};
  float largest = 0.0f;
  float least = __uint_as_float(kInfBits);
  QUANTD_UNROLL
  for (int i = 0; i < kRun; ++i) {
    largest = LargerMagnitude(largest, run.v[i]);
    least = fminf(least, fabsf(run.v[i]));
  }
  const uint32_t max = __float_as_uint(largest);
  const uint32_t of_factor = __float_as_uint(factor);
  // The largest value and the factor must be within 2^50 of each other, and far
  // from the ends of fp32's range.
  const uint32_t apart = max - of_factor + (50u << 23);
  // If the factor is below the least normal fp16, it may be far from the
  // operand, which is rounded to fp16 and may be 0.
  const bool operand_is_near = !kOther || !p.numerics.operand_in_type ||
                               p.input != DType::kF16 || factor >= 0x1p-14f;
  const bool ordinary = run.count >= kRun && max - (67u << 23) < (120u << 23) &&
                        of_factor - (67u << 23) < (120u << 23) &&
                        apart < (100u << 23) && operand_is_near;
  if (ordinary) {
    const bool fp8 = p.element != DType::kE2M1x2;
    float d[kRun];
    DecodeBlock(p.element, run.words, d);
    const uint32_t exponent = max >> 23;
    const float scale = __uint_as_float((255u - exponent) << 23);
    const float scaled_factor = factor * scale;
    float u[kRun];
    float e[kRun];
    float error = 0.0f;
    QUANTD_UNROLL
    for (int i = 0; i < kRun; ++i) {
      u[i] = run.v[i] * scale;
      // A value and its decoded code have the same sign.
      e[i] = fabsf(u[i]) - fabsf(d[i] * scaled_factor);
      error = fmaxf(error, fabsf(e[i]));
    }
    if (error == 0.0f || error >= 0x1p-13f) {
      uint32_t zeros = ZerosOf(run.words, fp8);
      if (zeros != 0 && least == 0.0f) {
        QUANTD_UNROLL
        for (int i = 0; i < kRun; ++i) zeros -= run.v[i] == 0.0f ? 1u : 0u;
      }
      r.elements = kRun;
      r.flushed = zeros;
      // (The multiplier may be rounded to bf16, but the factor is not.)
      if (largest >= factor * (__uint_as_float(p.clip) * 0.984375f)) {
        const Run copy = run;
        const LineScale<Scalar> of_line = line;
        r.clipped = Clipped<kOther>(p, of_line, copy);
      }
      r.max_error =
          __float_as_uint(error * __uint_as_float((exponent - 1) << 23));
      r.signal = {__float_as_uint(TreeOfSquares<kExact>(u)), exponent};
      r.noise = {__float_as_uint(TreeOfSquares<false>(e)), exponent};
      return r;
    }
  }
  if (max == 0 && run.count >= kRun && of_factor < kInfBits) {
    r.elements = kRun;
    return r;
  }
  // Copies, so that `run` and `line` themselves can stay in registers.
  const Run copy = run;
  const LineScale<Scalar> of_line = line;
  RunErrors<Scalar> errors;
  ErrorsByDefinition<kOther>(p, of_line, copy, &errors);
  return errors;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ERRORS_RUN_CUH_
