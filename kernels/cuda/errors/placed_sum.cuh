// A thread's sum of squares, in one register pair, and how the sums of a CTA
// become bins of ErrorSums.
#ifndef QUANTD_KERNELS_CUDA_ERRORS_PLACED_SUM_CUH_
#define QUANTD_KERNELS_CUDA_ERRORS_PLACED_SUM_CUH_

#include <cstdint>

#include "kernels/cuda/errors/totals.cuh"

namespace quantd::cuda {

// Adds a sum whose lowest bit has a place that is a multiple of eight. (A bin
// has room for sums of terms, not for sums of such sums: each gets 16 bits of
// one.) Not inlined, because it is seldom called.
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

// Squares as they are added are true ones times a power of two, the `frame`: a
// place (TermOf) is the exponent's bits and the frame. Terms of 24 bits stand
// in a window of kWindow places, wherever the first one was: those of a tensor
// seldom leave it. Room for 2^9 terms.
class PlacedSum {
 public:
  static constexpr uint32_t kTerms = 1u << 9;

  // `bits`: of 2^-64 or more, so that the first one moves the window.
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

  // Hands over what was added.
  __device__ __forceinline__ void Empty(uint32_t frame,
                                        ErrorSums::Squares* shared) {
    if (sum_ != 0) AddPlaced(sum_, base_ + frame, shared);
    sum_ = 0;
    base_ = 0;
  }

  // Empties the sums of the lanes of a warp, all of which must call this, at
  // the end.
  __device__ __forceinline__ void EmptyWarp(uint32_t frame,
                                            ErrorSums::Squares* shared) {
    // Most have the base of the largest.
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
  static constexpr uint32_t kBelow = 16;  // of it, under the first term

  uint64_t sum_ = 0;
  uint32_t base_ = 0;  // a place without the frame
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ERRORS_PLACED_SUM_CUH_
