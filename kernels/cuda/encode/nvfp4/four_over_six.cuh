// 4over6 of blocks of sixteen: both candidates' codes and the exact sums of
// their errors. The fast half, for blocks that are not rare
// (kernels/cuda/tile/packed.cuh) under an amax that IsOrdinary.
//
// Everything is even in the sign of an element: magnitudes will do, and signs
// are put to the codes at the end.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_FOUR_OVER_SIX_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_FOUR_OVER_SIX_CUH_

#include "kernels/cuda/encode/nvfp4/nearest.cuh"

namespace quantd::cuda {

// Whether multiplying by 2, 4 and so on is exact in all that follows.
__device__ __forceinline__ bool IsOrdinary(float amax) {
  return (amax >= 0x1p-90f && amax <= 0x1p90f) || amax == 0.0f;
}

// What decides an element's error under one scale. Codes are looked for as E2M1
// values / 64 (kernels/cuda/encode/nvfp4/nearest.cuh).
struct ErrorTerms {
  float m;      // element to E2M1 value / 64
  float ratio;  // fast error: the scale * 64
  // Else: of a value q / 64, whose power of two below is p / 64, the decoded
  // number is ratio * q / 64 + rest * p / 64, exactly. With d(q) that number,
  // rounded twice as FORMATS.md has it, ratio = 128 (d(1.5) - d(1)) and rest =
  // 64 d(1) - ratio: for q = p it is p d(1), for q = 1.5 p it is p d(1.5).
  float rest;
  float unused;  // one load for all
};

// What a group's amax decides, in shared memory.
struct ErrorTable {
  ErrorTerms of[128];  // by E4M3 code
  float s;
  bool ordinary;

  // All of so many threads must call; the caller synchronizes them before and
  // after.
  __device__ __forceinline__ void Fill(unsigned thread, unsigned threads,
                                       float amax, float range, bool fast) {
    const float encode = Nvfp4EncodeScale<Scalar>(amax, range);
    for (unsigned i = thread; i < 128; i += threads) {
      const float scale = DecodeE4M3<Scalar>(i);
      const float one = scale * amax / range;
      const float more = 1.5f * scale * amax / range;
      const float ratio = (more - one) * 128.0f;
      of[i] = {Nvfp4Multiplier<Scalar>(i, 1.0f / encode) * 0x1p-6f,
               fast ? scale * 64.0f : ratio, one * 64.0f - ratio, 0.0f};
    }
    if (thread == 0) {
      s = encode;
      ordinary = IsOrdinary(amax);
    }
  }
};

// b / 6, correctly rounded where the result is normal.
__device__ __forceinline__ float SixthOf(float b) {
  const float inv6 = __uint_as_float(kSixthBits);
  const float guess = __fmul_rn(b, inv6);
  return __fmaf_rn(__fmaf_rn(-6.0f, guess, b), inv6, guess);
}

// One of the two: its codes, and its error so far.
template <bool kMse, bool kFast>
struct Candidate {
  ErrorTerms terms;
  float error = 0.0f;

  // The value for magnitude x, / 64. `target` is x, or x * S.
  __device__ __forceinline__ float Add(float x, float target) {
    const float q = NearestE2M1(__fmul_rn(x, terms.m));
    // Exact, as q is next to x; for the fast error, the error.
    float d = __fmaf_rn(q, terms.ratio, -target);
    if constexpr (!kFast) {
      const float p = __uint_as_float(__float_as_uint(q) & 0x7F800000u);
      d = __fmaf_rn(p, terms.rest, d);
    }
    error = __fadd_rn(error, kMse ? __fmul_rn(d, d) : fabsf(d));
    return q;
  }
};

// Whether the candidate for 4 has the smaller error, and the better one's
// codes. Elements are of type D.
template <DType D, bool kMse, bool kFast>
__device__ __forceinline__ bool Choose(const Words& x, float s,
                                       const ErrorTerms& for_four,
                                       const ErrorTerms& for_six,
                                       uint2* codes) {
  Candidate<kMse, kFast> four = {for_four};
  Candidate<kMse, kFast> six = {for_six};
  // Of each half, elements 0 2 4 6, then 1 3 5 7.
  uint32_t four_bytes[4];
  uint32_t six_bytes[4];
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    float f[8];
    float g[8];
    QUANTD_UNROLL
    for (int i = 0; i < 8; ++i) {
      const uint32_t word = x.w[4 * h + i / 2] & 0x7FFF7FFFu;
      const float v = i % 2 == 0 ? LowOf<D>(word) : HighOf<D>(word);
      const float target = kFast ? __fmul_rn(v, s) : v;
      f[i] = four.Add(v, target);
      g[i] = six.Add(v, target);
    }
    QUANTD_UNROLL
    for (int odd = 0; odd < 2; ++odd) {
      four_bytes[2 * h + odd] =
          CodesOf<DType::kE4M3>(f[odd], f[2 + odd], f[4 + odd], f[6 + odd]);
      six_bytes[2 * h + odd] =
          CodesOf<DType::kE4M3>(g[odd], g[2 + odd], g[4 + odd], g[6 + odd]);
    }
  }
  const bool better = four.error < six.error;
  uint32_t words[2];
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    const uint32_t* w = x.w + 4 * h;
    const uint32_t even = better ? four_bytes[2 * h] : six_bytes[2 * h];
    const uint32_t odd = better ? four_bytes[2 * h + 1] : six_bytes[2 * h + 1];
    words[h] = CodesOfBytes(even, odd) |
               (SignsOf(w[0], w[1], w[2], w[3]) & 0x88888888u);
  }
  *codes = make_uint2(words[0], words[1]);
  return better;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_FOUR_OVER_SIX_CUH_
