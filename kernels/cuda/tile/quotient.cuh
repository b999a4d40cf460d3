// Divides many numbers by the same divisor, without a division for each.
#ifndef QUANTD_KERNELS_CUDA_TILE_QUOTIENT_CUH_
#define QUANTD_KERNELS_CUDA_TILE_QUOTIENT_CUH_

#include <cstdint>

namespace quantd::cuda {

// Computes the correctly rounded quotient v / d: an estimate within a unit of
// the last place, then one correction. `d` and all v must be Safe.
class Quotient {
 public:
  __device__ __forceinline__ explicit Quotient(float d)
      : d_(d), inverse_(1.0f / d) {
    rest_ = __fmaf_rn(-inverse_, d, 1.0f) * inverse_;
  }
  // Whether no step overflows, and a step only underflows for numbers that have
  // the code 0. `max` is the largest magnitude (fp32 bits).
  static constexpr uint32_t kEnd = 0x5D800000u;  // 2^60
  static __device__ __forceinline__ bool Safe(float d, uint32_t max) {
    return d >= 0x1p-60f && d <= 0x1p60f && max < kEnd;
  }
  __device__ __forceinline__ float Of(float v) const {
    const float q = __fmaf_rn(v, inverse_, v * rest_);
    return __fmaf_rn(__fmaf_rn(-q, d_, v), inverse_, q);
  }

 private:
  float d_;
  float inverse_;
  float rest_;  // 1 / d - inverse_
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_QUOTIENT_CUH_
