// ErrorSums on the device: bins in shared memory, a CTA's total added up at its
// end. Integers, so that the order of threads does not matter.
#ifndef QUANTD_KERNELS_CUDA_STATISTICS_CUH_
#define QUANTD_KERNELS_CUDA_STATISTICS_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/codec.h"
#include "kernels/error_statistics.h"
#include "kernels/lanes.h"

namespace quantd::cuda {

__device__ __forceinline__ void AddTo(uint64_t* to, uint64_t value) {
  static_assert(sizeof(uint64_t) == sizeof(unsigned long long));
  if (value != 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to),
              static_cast<unsigned long long>(value));
  }
}

// What a thread counts of one copy.
struct Tally {
  uint64_t elements = 0;
  uint64_t clipped = 0;
  uint64_t flushed = 0;
  uint32_t max_error = 0;  // fp32 bits
};

// Adds the square of a finite number to its bin. Values have few exponents:
// threads of a warp that are here for the same bin add up first. (Some may be
// here for the other copy.)
__device__ __forceinline__ void AddSquare(float x, ErrorSums::Squares* to) {
  const uint32_t bits = Scalar::Bits(x) & kAbsMask;
  const uint32_t exponent = bits >> 23;
  const uint64_t mantissa =
      (bits & 0x7FFFFFu) | (exponent != 0 ? 0x800000u : 0u);
  const uint64_t square = mantissa * mantissa;
  const auto bin =
      static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&to->low[exponent]));
  const unsigned same = __match_any_sync(__activemask(), bin);
  const uint32_t low =
      __reduce_add_sync(same, static_cast<uint32_t>(square & 0xFFFFFFu));
  const uint32_t high =
      __reduce_add_sync(same, static_cast<uint32_t>(square >> 24));
  if (threadIdx.x % 32 == static_cast<unsigned>(__ffs(same)) - 1) {
    AddTo(&to->low[exponent], low);
    AddTo(&to->high[exponent], high);
  }
}

// Counts v, which became d; y is v times its multiplier, and whatever is not
// below `clip` would round beyond the largest code.
__device__ __forceinline__ void Count(float v, float y, float d, uint32_t clip,
                                      Tally* tally, ErrorSums* sums) {
  const bool finite = (Scalar::Bits(v) & kAbsMask) < kInfBits;
  const uint32_t scaled = Scalar::Bits(y) & kAbsMask;
  if (finite) ++tally->elements;
  if (scaled >= clip && scaled <= kInfBits) ++tally->clipped;
  if (v != 0.0f && d == 0.0f) ++tally->flushed;
  if (!finite || (Scalar::Bits(d) & kAbsMask) >= kInfBits) return;
  // d has the sign of v: the difference is finite.
  const float error = v - d;
  const uint32_t magnitude = Scalar::Bits(error) & kAbsMask;
  tally->max_error =
      magnitude > tally->max_error ? magnitude : tally->max_error;
  AddSquare(v, &sums->signal);
  AddSquare(error, &sums->noise);
}

// ErrorSums are so many 64-bit sums, and max_error.
inline constexpr int kSumWords =
    static_cast<int>(offsetof(ErrorSums, max_error) / sizeof(uint64_t));

// All threads must call the following. Barriers are the caller's: after
// clearing, and between adding to `sums` and flushing them.
__device__ __forceinline__ void Clear(ErrorSums* sums) {
  uint64_t* words = reinterpret_cast<uint64_t*>(sums);
  for (unsigned i = threadIdx.x; i < sizeof(ErrorSums) / sizeof(uint64_t);
       i += blockDim.x) {
    words[i] = 0;
  }
}
__device__ __forceinline__ void AddTally(const Tally& tally, ErrorSums* sums) {
  AddTo(&sums->elements, tally.elements);
  AddTo(&sums->clipped, tally.clipped);
  AddTo(&sums->flushed, tally.flushed);
  if (tally.max_error != 0) atomicMax(&sums->max_error, tally.max_error);
}
__device__ __forceinline__ void Flush(const ErrorSums& sums, ErrorSums* to) {
  const uint64_t* words = reinterpret_cast<const uint64_t*>(&sums);
  uint64_t* totals = reinterpret_cast<uint64_t*>(to);
  for (int i = threadIdx.x; i < kSumWords; i += blockDim.x) {
    AddTo(&totals[i], words[i]);
  }
  if (threadIdx.x == 0 && sums.max_error != 0) {
    atomicMax(&to->max_error, sums.max_error);
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_STATISTICS_CUH_
