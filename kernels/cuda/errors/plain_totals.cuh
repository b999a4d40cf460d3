// Totals of a thread's whole and ordinary runs.
#ifndef QUANTD_KERNELS_CUDA_ERRORS_PLAIN_TOTALS_CUH_
#define QUANTD_KERNELS_CUDA_ERRORS_PLAIN_TOTALS_CUH_

#include <cstdint>

#include "kernels/cuda/errors/placed_sum.cuh"
#include "kernels/cuda/errors/plain_runs.cuh"

namespace quantd::cuda {

// Not inlined, because it is seldom called.
inline __device__ __noinline__ void AddCounts(uint32_t elements,
                                              uint32_t flushed,
                                              uint32_t max_error,
                                              ErrorSums* shared) {
  AddTo(&shared->elements, elements);
  AddTo(&shared->flushed, flushed);
  if (max_error != 0) atomicMax(&shared->max_error, max_error);
}

// A thread's totals of one copy.
//
// Values and errors are multiplied by a power of two before they are squared.
// All runs of a thread share this power, which brings a factor to about 2^20.
// This changes no difference, and no sum from 2^-20 to 2^100. (A square that
// underflows is below 2^-126. It could only change a partial sum of at most
// 2^25 times its size, and at most four additions follow that one.)
template <DType E>
class PlainTotals {
 public:
  // The number of runs after which Empty must be called.
  static constexpr uint32_t kRuns = PlacedSum::kTerms;

  __device__ __forceinline__ float scale() const { return scale_; }

  // Sets the power of two for a factor, unless the factor is too large or too
  // small.
  __device__ __forceinline__ void SetScale(float factor, ErrorSums* shared) {
    const uint32_t exponent = __float_as_uint(factor) >> 23;
    const uint32_t bits = (274u - exponent) << 23;
    if (exponent - 67u >= 120u || bits == __float_as_uint(scale_)) return;
    if (counts_ != 0) Empty(shared);
    scale_ = __uint_as_float(bits);
    frame_ = 2 * (exponent - 19u);
  }

  // Counts a run. value(i) is value i times scale(), and decoded(i) * factor is
  // its decoded code. `flushed` nonzero values have the code 0. Returns false
  // and counts nothing if the run is not ordinary.
  template <bool kExact, typename Value, typename Decoded>
  __device__ __forceinline__ bool Add(const Value& value,
                                      const Decoded& decoded, float factor,
                                      bool power_of_two, uint32_t flushed,
                                      ErrorSums* shared) {
    const float scaled = factor * scale_;
    const PlainSums run = SumsOf<kExact>(value, decoded, scaled);
    const uint32_t signal = __float_as_uint(run.signal);
    const uint32_t noise = __float_as_uint(run.noise);
    const bool exact = (noise | __float_as_uint(run.error)) == 0;
    bool ordinary = InRange(__float_as_uint(scaled)) && InRange(signal) &&
                    (InRange(noise) || exact);
    // A value that would round beyond the largest code has at least this error.
    if (ordinary && run.error >= scaled * (kNear * (kClip - kMax))) {
      ordinary = Clips(value, scaled, power_of_two, shared);
    }
    if (!ordinary) return false;
    counts_ += 1 + (flushed << 16);
    error_ = fmaxf(error_, run.error);
    signal_.Add(signal, frame_, &shared->signal);
    if (!exact) noise_.Add(noise, frame_, &shared->noise);
    return true;
  }

  // Moves the totals to the shared sums.
  __device__ __forceinline__ void Empty(ErrorSums* shared) {
    signal_.Empty(frame_, &shared->signal);
    noise_.Empty(frame_, &shared->noise);
    AddCounts(Elements(), counts_ >> 16, MaxError(), shared);
    counts_ = 0;
    error_ = 0.0f;
  }

  // Moves the totals of a warp's lanes to the shared sums, at the end. All
  // lanes must call this.
  __device__ __forceinline__ void EmptyWarp(ErrorSums* shared) {
    signal_.EmptyWarp(frame_, &shared->signal);
    noise_.EmptyWarp(frame_, &shared->noise);
    const uint32_t all = __reduce_add_sync(0xFFFFFFFFu, Elements());
    const uint32_t flushed = __reduce_add_sync(0xFFFFFFFFu, counts_ >> 16);
    const uint32_t max = __reduce_max_sync(0xFFFFFFFFu, MaxError());
    if (threadIdx.x % kWarp == 0) AddCounts(all, flushed, max, shared);
  }

 private:
  static constexpr float kMax = LimitsOf(E).max;
  static constexpr float kClip = LimitsOf(E).clip;
  // Allows for a factor that is the inverse of the multiplier only up to a few
  // last places.
  static constexpr float kNear = 1.0f - 0x1p-15f;

  // Whether a number is from 2^-20 to 2^100.
  static __device__ __forceinline__ bool InRange(uint32_t bits) {
    return bits - (107u << 23) < (120u << 23);
  }

  // Counts clipped values. Returns false if that needs the multiplier.
  template <typename Value>
  static __device__ __forceinline__ bool Clips(const Value& value, float scaled,
                                               bool power_of_two,
                                               ErrorSums* shared) {
    float largest = 0.0f;
    QUANTD_UNROLL
    for (int i = 0; i < kRun; ++i) largest = fmaxf(largest, fabsf(value(i)));
    if (largest < scaled * (kNear * kClip)) return true;
    if (!power_of_two) return false;
    uint32_t clipped = 0;
    QUANTD_UNROLL
    for (int i = 0; i < kRun; ++i) {
      clipped += fabsf(value(i)) >= scaled * kClip ? 1u : 0u;
    }
    AddTo(&shared->clipped, clipped);
    return true;
  }

  __device__ __forceinline__ uint32_t Elements() const {
    return (counts_ & 0xFFFFu) * kRun;
  }
  // The largest error as fp32 bits. 1 / scale_ is a power of two.
  __device__ __forceinline__ uint32_t MaxError() const {
    if (error_ == 0.0f) return 0;
    return __float_as_uint(
        error_ * __uint_as_float((254u << 23) - __float_as_uint(scale_)));
  }

  float scale_ = 0.0f;
  uint32_t frame_ = 0;   // see PlacedSum
  uint32_t counts_ = 0;  // runs, and from bit 16 on flushed values
  float error_ = 0.0f;   // times scale_
  PlacedSum signal_;
  PlacedSum noise_;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ERRORS_PLAIN_TOTALS_CUH_
