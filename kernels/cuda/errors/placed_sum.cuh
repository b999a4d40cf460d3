// A thread's sum of squares in one register pair, and the way of a CTA's sums
// into bins of ErrorSums.
#ifndef QUANTD_KERNELS_CUDA_ERRORS_PLACED_SUM_CUH_
#define QUANTD_KERNELS_CUDA_ERRORS_PLACED_SUM_CUH_

#include <cstdint>

#include "kernels/cuda/errors/totals.cuh"

namespace quantd::cuda {

// Adds a sum whose lowest bit has a place that is a multiple of eight. (A bin
// has room for sums of terms, not for sums of such sums, so each bin gets 16
// bits of it.) Not inlined, because it is seldom called.
inline constexpr int kPieces = 4;
__device__ __forceinline__ uint32_t PieceOf(uint64_t sum, int i) {
  return static_cast<uint32_t>(sum >> (16 * i)) & 0xFFFFu;
}
inline __device__ __noinline__ void AddPlaced(uint64_t sum, uint32_t place,
                                              ErrorSums::Squares* shared) {
#pragma unroll 1
  for (int i = 0; i < kPieces; ++i) {
    AddTo(&shared->bins[place / 8 + 2 * i], PieceOf(sum, i));
  }
}

// Squares are scaled by a power of two, the `frame`: a place (TermOf) is the
// exponent's bits plus the frame. Terms of 24 bits are kept in a window of
// kWindow places that begins near the first one: the terms of a tensor seldom
// leave it. Room for 2^9 terms.
class PlacedSum {
 public:
  static constexpr uint32_t kTerms = 1u << 9;

  // `bits`: at least 2^-64, so that the first term moves the window.
  __device__ __forceinline__ void Add(uint32_t bits, uint32_t frame,
                                      ErrorSums::Squares* shared) {
    uint32_t up = (bits >> 23) - base_;
    if (up >= kWindow) {
      Empty(frame, shared);
      // Bins begin at every eighth place.
      const uint32_t place = (bits >> 23) + frame;
      const uint32_t base = place < kBelow ? 0 : (place - kBelow) & ~7u;
      base_ = base - frame;
      up = place - base;
    }
    sum_ += uint64_t{(bits & 0x7FFFFFu) | 0x800000u} * (1u << up);
  }

  // Moves the sum to the shared bins.
  __device__ __forceinline__ void Empty(uint32_t frame,
                                        ErrorSums::Squares* shared) {
    if (sum_ != 0) AddPlaced(sum_, base_ + frame, shared);
    sum_ = 0;
    base_ = 0;
  }

  // Moves the sums of a warp's lanes to the shared bins, at the end. All lanes
  // must call this.
  __device__ __forceinline__ void EmptyWarp(uint32_t frame,
                                            ErrorSums::Squares* shared) {
    // Most lanes have the base of the largest.
    const uint32_t base = sum_ != 0 ? base_ + frame : 0;
    const uint32_t most = __reduce_max_sync(0xFFFFFFFFu, base);
    const bool same = sum_ != 0 && base == most;
    QUANTD_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      const uint32_t sum =
          __reduce_add_sync(0xFFFFFFFFu, same ? PieceOf(sum_, i) : 0u);
      if (threadIdx.x % kWarp == 0 && sum != 0) {
        AddTo(&shared->bins[most / 8 + 2 * i], sum);
      }
    }
    if (!same) Empty(frame, shared);
  }

 private:
  static constexpr uint32_t kWindow = 32;
  static constexpr uint32_t kBelow = 16;  // room of the window below the first
                                          // term

  uint64_t sum_ = 0;
  uint32_t base_ = 0;  // a place without the frame
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ERRORS_PLACED_SUM_CUH_
