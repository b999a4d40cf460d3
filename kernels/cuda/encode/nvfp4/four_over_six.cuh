// 4over6 for blocks of sixteen: finds the codes with both candidate scales, and
// the candidate with the smaller error. The fast functions are for blocks that
// are not rare (IsRare) with an amax that IsOrdinary.
//
// Errors are rounded sums of rounded numbers, but usually approximations show
// which of two errors is smaller. So approximate sums are compared first. Exact
// sums are only needed if the approximate ones are too close to each other.
//
// The sign of an element does not affect its error. So everything works on
// magnitudes, and signs are added to the codes at the end.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_FOUR_OVER_SIX_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_FOUR_OVER_SIX_CUH_

#include <type_traits>

#include "kernels/cuda/args.h"
#include "kernels/cuda/encode/nvfp4/encode.cuh"
#include "kernels/cuda/encode/nvfp4/nearest.cuh"
#include "kernels/cuda/tile/team.cuh"

namespace quantd::cuda {

// Whether multiplying by powers of two is exact in all computations below.
__device__ __forceinline__ bool IsOrdinary(float amax) {
  return (amax >= 0x1p-90f && amax <= 0x1p90f) || amax == 0.0f;
}

// Constants to compute the error of elements with one scale. E2M1 values are in
// kE2M1Unit (kernels/cuda/encode/nvfp4/nearest.cuh).
struct ErrorTerms {
  float m;  // element to E2M1 value
  // The factor from values to decoded numbers. For the fast error it is the
  // scale. Otherwise it is d(1), where d(q) is the number decoded from q,
  // rounded twice as in FORMATS.md. The factor times q is d(q) with an error of
  // at most 2^-22 d(q), and without error for powers of two.
  float near;
};

// Error constants for a group's amax, in shared memory.
struct ErrorTable {
  ErrorTerms of[128];  // by E4M3 code
  float s;
  float amax;
  float range;
  bool ordinary;

  // All `threads` threads must call this; the caller synchronizes them before
  // and after.
  __device__ __forceinline__ void Fill(unsigned thread, unsigned threads,
                                       float of_all, float most, bool fast) {
    const float encode = Nvfp4EncodeScale<Scalar>(of_all, most);
    for (unsigned i = thread; i < 128; i += threads) {
      const float scale = DecodeE4M3<Scalar>(i);
      of[i] = {Nvfp4Multiplier<Scalar>(i, 1.0f / encode) * kE2M1Unit,
               (fast ? scale : scale * of_all / most) / kE2M1Unit};
    }
    if (thread == 0) {
      s = encode;
      amax = of_all;
      range = most;
      ordinary = IsOrdinary(of_all);
    }
  }
};

// Fills the table of a copy in a team's shared memory. All threads of the team
// must call this; the caller synchronizes them before and after.
__device__ __forceinline__ void BringCodeTable(const EncodeArgs& a,
                                               uint32_t /*group*/,
                                               uint32_t /*number*/,
                                               const CopyTask& copy,
                                               ErrorTable* table) {
  table->Fill(Team::thread(), kThreads, *copy.amax, a.params.range,
              a.params.nvfp4.fast_error);
}

// b / 6, correctly rounded if the result is normal.
__device__ __forceinline__ float SixthOf(float b) {
  const float inv6 = __uint_as_float(kSixthBits);
  const float guess = __fmul_rn(b, inv6);
  return __fmaf_rn(__fmaf_rn(-6.0f, guess, b), inv6, guess);
}

// The errors of a block or a square with its two candidate scales, which map
// its maximum to 4 and to 6.
struct Errors {
  float four;
  float six;
};

// Whether approximate errors are too close to show which is smaller, for a
// block or square of `lines` lines with the largest magnitude `max`.
//
// A sum is rounded at most 23 times, here and by the definition. Together this
// changes the two sums by less than 2^-18 of both. Except for the fast error,
// `near` also makes decoded numbers inexact, by up to 2^-22 of a number.
// Decoded numbers are at most 6/5 max, and differences that are squared at most
// max / 5. So both sums of a line are off by at most 2^-18.06 max^2 with
// squares, or 2^-16.7 max without.
template <bool kMse>
__device__ __forceinline__ bool InDoubt(const Errors& errors, float max,
                                        int lines, bool fast) {
  float least = 0x1p-130f;  // subnormal numbers
  if (!fast) {
    const float n = static_cast<float>(lines);
    least = __fmaf_rn(kMse ? max * max : max,
                      kMse ? n * 0x1p-18f : n * 0x1p-16f, least);
  }
  const float doubt = __fmaf_rn(errors.four + errors.six, 0x1p-18f, least);
  return max != 0.0f && !(fabsf(errors.four - errors.six) > doubt);
}

// The approximate error of a block with one candidate scale.
template <bool kMse>
struct Candidate {
  ErrorTerms terms;
  float error = 0.0f;

  // Adds the approximate errors of eight elements: magnitudes or, with
  // kConvertsE2M1, numbers of either sign. `target` is x, or x * S for the fast
  // error. Returns their codes.
  __device__ __forceinline__ EightCodes Add(const float (&x)[8],
                                            const float (&target)[8]) {
    float y[8];
    float q[8];
    float d[8];
    QUANTD_UNROLL
    for (int i = 0; i < 8; ++i) {
      y[i] = x[i];
      d[i] = target[i];
    }
    MultiplyBy(terms.m, y);
    const EightCodes codes = RoundEight(y, q);
    AddProducts(-terms.near, q, d);
    QUANTD_UNROLL
    for (int i = 0; i < 8; ++i) {
      error = kMse ? __fmaf_rn(d[i], d[i], error) : error + fabsf(d[i]);
    }
    return codes;
  }
};

// The error of a block of values with a scale, exactly as defined in
// FORMATS.md. Without kSaturates all scaled values must be below 7.
template <bool kMse, bool kSaturates = false>
__device__ __forceinline__ float ExactError(const float (&v)[kBlock],
                                            const ErrorTable& table,
                                            uint32_t code, bool fast) {
  const ErrorTerms terms = table.of[code];
  // Let p be q without its mantissa. The number decoded from q is exactly p
  // d(1) or p d(1.5), so the error is rounded once, as defined.
  const float scale = DecodeE4M3<Scalar>(code);
  const float one =
      fast ? terms.near : scale * table.amax / table.range / kE2M1Unit;
  const float more = fast ? 1.5f * terms.near
                          : 1.5f * scale * table.amax / table.range / kE2M1Unit;
  const float times = fast ? table.s : 1.0f;
  float error = 0.0f;
  QUANTD_UNROLL
  for (int h = 0; h < kBlock; h += 8) {
    float y[8];
    float q[8];
    QUANTD_UNROLL
    for (int i = 0; i < 8; ++i) {
      y[i] = __fmul_rn(fabsf(v[h + i]), terms.m);
      if constexpr (kSaturates && !kConvertsE2M1) y[i] = fminf(y[i], 0x1.8p-4f);
    }
    RoundEight(y, q);
    QUANTD_UNROLL
    for (int i = 0; i < 8; ++i) {
      const uint32_t bits = __float_as_uint(q[i]);
      const float p = __uint_as_float(bits & 0x7F800000u);
      const float d = (bits & 0x00400000u) != 0 ? more : one;
      const float e = __fmaf_rn(p, d, -__fmul_rn(fabsf(v[h + i]), times));
      error = __fadd_rn(error, kMse ? __fmul_rn(e, e) : fabsf(e));
    }
  }
  return error;
}
template <bool kMse>
__device__ __forceinline__ Errors ExactErrors(const float (&v)[kBlock],
                                              const ErrorTable& table,
                                              uint32_t four, uint32_t six,
                                              bool fast) {
  return {ExactError<kMse>(v, table, four, fast),
          ExactError<kMse>(v, table, six, fast)};
}
// The error of a square, added in the order of FourOverSixErrorOfSquare. Each
// of sixteen lanes has the error of a line. All lanes must call this.
__device__ __forceinline__ float SumOfLines(float error) {
  __syncwarp();
  QUANTD_UNROLL
  for (int lanes = kBlock / 2; lanes > 0; lanes /= 2) {
    error += __shfl_xor_sync(0xFFFFFFFFu, error, lanes);
  }
  return error;
}
// The errors of a square, added in the order of FourOverSixErrorOfSquare. Each
// of sixteen lanes has the errors of a line. All lanes in the mask `of`, which
// are the lanes of whole squares, must call this.
__device__ __forceinline__ Errors SumOfLines(Errors errors,
                                             uint32_t of = 0xFFFFFFFFu) {
  __syncwarp(of);
  QUANTD_UNROLL
  for (int lanes = kBlock / 2; lanes > 0; lanes /= 2) {
    errors.four += __shfl_xor_sync(of, errors.four, lanes);
    errors.six += __shfl_xor_sync(of, errors.six, lanes);
  }
  return errors;
}

// The base of the candidate scales: max / 6 * S, where `max` is the largest
// magnitude (fp32 bits) of a block or a square.
__device__ __forceinline__ float BaseOf(uint32_t max, float s) {
  return __fmul_rn(SixthOf(__uint_as_float(max)), s);
}
__device__ __forceinline__ uint32_t ScaleForFour(float base) {
  return E4M3Of(__fmul_rn(base, 1.5f));
}
__device__ __forceinline__ uint32_t ScaleForSix(float base) {
  return E4M3Of(base);
}

// The errors and the codes of a block with both candidate scales.
template <DType D, bool kMse, bool kFast>
class Contest {
 public:
  __device__ __forceinline__ Contest(const Words& x, float s,
                                     const ErrorTerms& for_four,
                                     const ErrorTerms& for_six)
      : four_{for_four}, six_{for_six} {
    QUANTD_UNROLL
    for (int h = 0; h < 2; ++h) {
      float v[8];
      float target[8];
      QUANTD_UNROLL
      for (int i = 0; i < 8; ++i) {
        uint32_t word = x.w[4 * h + i / 2];
        if constexpr (!kConvertsE2M1) word &= 0x7FFF7FFFu;
        v[i] = i % 2 == 0 ? LowOf<D>(word) : HighOf<D>(word);
        target[i] = kFast ? __fmul_rn(v[i], s) : v[i];
      }
      four_codes_[h] = four_.Add(v, target);
      six_codes_[h] = six_.Add(v, target);
    }
  }

  // The approximate errors.
  __device__ __forceinline__ Errors errors() const {
    return {four_.error, six_.error};
  }
  // The codes of x with one candidate scale.
  __device__ __forceinline__ uint2 Codes(const Words& x, bool four) const {
    uint32_t words[2];
    QUANTD_UNROLL
    for (int h = 0; h < 2; ++h) {
      const EightCodes codes = four ? four_codes_[h] : six_codes_[h];
      words[h] = codes.WithSignsOf(x.w + 4 * h);
    }
    return make_uint2(words[0], words[1]);
  }

 private:
  Candidate<kMse> four_;
  Candidate<kMse> six_;
  EightCodes four_codes_[2];
  EightCodes six_codes_[2];
};

// Encodes a block with the better candidate scale. `max` is the block's largest
// magnitude (fp32 bits). Returns false if EncodeOpen must encode the block
// instead.
template <DType D, bool kMse, bool kFast>
__device__ __forceinline__ bool EncodeBetter(const Words& x, uint32_t max,
                                             const ErrorTable& table,
                                             Unit* unit) {
  const float base = BaseOf(max, table.s);
  const uint32_t four = ScaleForFour(base);
  const uint32_t six = ScaleForSix(base);
  const Contest<D, kMse, kFast> contest(x, table.s, table.of[four],
                                        table.of[six]);
  const Errors errors = contest.errors();
  const bool better = errors.four < errors.six;
  unit->codes = contest.Codes(x, better);
  unit->scale = better ? four : six;
  return !IsRare(max, base) && table.ordinary &&
         !InDoubt<kMse>(errors, __uint_as_float(max), 1, kFast);
}

// Encodes a block that is rare or whose approximate errors are too close to
// each other. Adds the block's Seen bits to `*seen`.
template <DType D, bool kMse, bool kFast>
static __device__ __noinline__ Unit EncodeOpen(const EncodeParams& p, Words x,
                                               const ErrorTable& table,
                                               uint32_t* seen) {
  float v[kBlock];
  Unpack<D>(x, v);
  uint32_t max, clean;
  FindMaxima<Scalar>(v, kBlock, &max, &clean);
  const float base = BaseOf(max, table.s);
  if (IsRare(max, base) || !table.ordinary) {
    return EncodeRare<D>(p, x, nullptr, table.amax, nullptr, seen);
  }
  const uint32_t four = ScaleForFour(base);
  const uint32_t six = ScaleForSix(base);
  const Errors errors = ExactErrors<kMse>(v, table, four, six, kFast);
  const uint32_t scale = errors.four < errors.six ? four : six;
  return {NearestCodes<D>(x, table.of[scale].m), scale};
}

// Fixes the metric of a Coding, so that the type of elements is the only
// parameter.
template <template <DType, bool, bool> typename Coding, bool kMse, bool kFast>
struct ByMetric {
  template <DType D>
  using Of = Coding<D, kMse, kFast>;
};
// Calls f(mse, fast) with the metric as constants.
template <typename F>
cudaError_t ForMetric(const EncodeParams& p, const F& f) {
  const auto with = [&](auto mse) {
    return p.nvfp4.fast_error ? f(mse, std::true_type{})
                              : f(mse, std::false_type{});
  };
  return p.nvfp4.four_over_six == FourOverSix::kMse ? with(std::true_type{})
                                                    : with(std::false_type{});
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_FOUR_OVER_SIX_CUH_
