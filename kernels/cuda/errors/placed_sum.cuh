// Keeps a thread's sum of squares in one register pair, and moves such sums
// into the bins of ErrorSums.
#ifndef QUANTD_KERNELS_CUDA_ERRORS_PLACED_SUM_CUH_
#define QUANTD_KERNELS_CUDA_ERRORS_PLACED_SUM_CUH_

#include <cstdint>

#include "kernels/cuda/errors/totals.cuh"

namespace quantd::cuda {

// A sum of 64 bits in pieces of 16.
inline constexpr int kPieces = 4;
__device__ __forceinline__ uint32_t PieceOf(uint64_t sum, int i) {
  return static_cast<uint32_t>(sum >> (16 * i)) & 0xFFFFu;
}
// Adds `sum` to the bins. `place`, that of its lowest bit, is a multiple of
// eight. (The sum is wider than the terms that a bin is made for, so 16 bits of
// it go to every second bin.) Not inlined, because it is seldom called.
inline __device__ __noinline__ void AddPlaced(uint64_t sum, uint32_t place,
                                              ErrorSums::Squares* shared) {
#pragma unroll 1
  for (int i = 0; i < kPieces; ++i) {
    AddTo(&shared->bins[place / 8 + 2 * i], PieceOf(sum, i));
  }
}

// A sum of at most kTerms numbers, which are the sums of a run's squares. They
// are scaled by a power of two, `frame`: the place of a number (see TermOf) is
// its exponent bits plus the frame. Terms of 24 bits are added up in a window
// of kWindow places around the first term. The terms of a tensor seldom leave
// the window.
class PlacedSum {
 public:
  static constexpr uint32_t kTerms = 1u << 9;

  // Adds a number, given as fp32 bits. It is at least 2^-64, so that the first
  // term sets the window.
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
    // Most lanes have the largest base.
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
  static constexpr uint32_t kBelow = 16;  // places of the window below the
                                          // first term

  uint64_t sum_ = 0;
  uint32_t base_ = 0;  // place of the window's lowest bit, minus the frame
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ERRORS_PLACED_SUM_CUH_
