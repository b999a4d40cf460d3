// Accumulates ErrorSums on the device: in bins of a thread, then of a CTA in
// shared memory, then of the copy. Bins are integers, so the order of threads
// does not matter.
#ifndef QUANTD_KERNELS_CUDA_ERRORS_TOTALS_CUH_
#define QUANTD_KERNELS_CUDA_ERRORS_TOTALS_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/arith/lanes.h"
#include "kernels/arith/run_errors.h"
#include "kernels/cuda/tile/element.cuh"
#include "kernels/plan/error_sums.h"

namespace quantd::cuda {

__device__ __forceinline__ void AddTo(uint64_t* to, uint64_t value) {
  static_assert(sizeof(uint64_t) == sizeof(unsigned long long));
  if (value != 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to),
              static_cast<unsigned long long>(value));
  }
}

// The sum of `value` over a warp. All lanes must call this.
__device__ __forceinline__ uint64_t SumOfWarp(uint64_t value) {
  QUANTD_UNROLL
  for (int step = 1; step < kWarp; step *= 2) {
    const auto low = static_cast<uint32_t>(value);
    const auto high = static_cast<uint32_t>(value >> 32);
    const uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, low, step);
    value += other | uint64_t{__shfl_xor_sync(0xFFFFFFFFu, high, step)} << 32;
  }
  return value;
}
__device__ __forceinline__ uint32_t MaxOfWarp(uint32_t value) {
  QUANTD_UNROLL
  for (int step = 1; step < kWarp; step *= 2) {
    const uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, value, step);
    value = other > value ? other : value;
  }
  return value;
}

// A thread's sum of squares. The sums of a tensor's runs need few bins. One bin
// with an even and one with an odd number are in registers. They move to shared
// memory when another bin is needed.
class SquareTotal {
 public:
  __device__ __forceinline__ void Add(SquareTerm term,
                                      ErrorSums::Squares* shared) {
    if (term.value == 0) return;
    if (term.bin % 2 == 0) {
      Add(term, &sums_[0], &bins_[0], shared);
    } else {
      Add(term, &sums_[1], &bins_[1], shared);
    }
  }

  // Adds the sums to shared memory. All lanes of a warp must call this at the
  // end.
  __device__ __forceinline__ void Flush(ErrorSums::Squares* shared) {
    QUANTD_UNROLL
    for (int i = 0; i < 2; ++i) {
      // Most lanes have the largest bin.
      const uint32_t bin = MaxOfWarp(bins_[i]);
      const bool same = bins_[i] == bin;
      const uint64_t sum = SumOfWarp(same ? sums_[i] : 0);
      if (threadIdx.x % kWarp == 0) AddTo(&shared->bins[bin], sum);
      if (!same) AddTo(&shared->bins[bins_[i]], sums_[i]);
    }
  }

 private:
  static __device__ __forceinline__ void Add(SquareTerm term, uint64_t* sum,
                                             uint32_t* bin,
                                             ErrorSums::Squares* shared) {
    if (term.bin != *bin) {
      AddTo(&shared->bins[*bin], *sum);
      *sum = 0;
      *bin = term.bin;
    }
    *sum += term.value;
  }

  uint64_t sums_[2] = {};
  uint32_t bins_[2] = {};
};

// A thread's counts of one copy. They fit into 32 bits, because many threads
// share at most 2^37 elements of a copy.
struct ErrorTotals {
  uint32_t elements = 0;
  uint32_t clipped = 0;
  uint32_t flushed = 0;
  uint32_t max_error = 0;  // fp32 bits
  SquareTotal signal;
  SquareTotal noise;

  __device__ __forceinline__ void Add(const RunErrors<Scalar>& run,
                                      ErrorSums* shared) {
    elements += run.elements;
    clipped += run.clipped;
    flushed += run.flushed;
    max_error = run.max_error > max_error ? run.max_error : max_error;
    signal.Add(TermOf(run.signal.bits, run.signal.exponent), &shared->signal);
    noise.Add(TermOf(run.noise.bits, run.noise.exponent), &shared->noise);
  }

  // Adds the totals to shared memory. All threads of a CTA must call this at
  // the end, with barriers before and after.
  __device__ __forceinline__ void Flush(ErrorSums* shared) {
    signal.Flush(&shared->signal);
    noise.Flush(&shared->noise);
    const uint64_t all = SumOfWarp(elements);
    const uint64_t clips = SumOfWarp(clipped);
    const uint64_t flushes = SumOfWarp(flushed);
    const uint32_t max = MaxOfWarp(max_error);
    if (threadIdx.x % kWarp != 0) return;
    AddTo(&shared->elements, all);
    AddTo(&shared->clipped, clips);
    AddTo(&shared->flushed, flushes);
    if (max != 0) atomicMax(&shared->max_error, max);
  }
};

// The number of 64-bit sums in ErrorSums, which max_error follows.
inline constexpr int kSumWords =
    static_cast<int>(offsetof(ErrorSums, max_error) / sizeof(uint64_t));

// Clear zeroes a CTA's sums, and AddTotals adds them to the copy's. All threads
// of a CTA must call them, with barriers in between.
__device__ __forceinline__ void Clear(ErrorSums* shared) {
  auto* const words = reinterpret_cast<uint64_t*>(shared);
  for (unsigned i = threadIdx.x; i < sizeof(ErrorSums) / sizeof(uint64_t);
       i += blockDim.x) {
    words[i] = 0;
  }
}
__device__ __forceinline__ void AddTotals(const ErrorSums& shared,
                                          ErrorSums* to) {
  const auto* const words = reinterpret_cast<const uint64_t*>(&shared);
  auto* const totals = reinterpret_cast<uint64_t*>(to);
  for (int i = threadIdx.x; i < kSumWords; i += blockDim.x) {
    AddTo(&totals[i], words[i]);
  }
  if (threadIdx.x == 0 && shared.max_error != 0) {
    atomicMax(&to->max_error, shared.max_error);
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ERRORS_TOTALS_CUH_
