// ErrorSums on the device: bins in shared memory, a CTA's total added up at its
// end. Integers, so that the order of threads does not matter.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_GENERIC_STATISTICS_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_GENERIC_STATISTICS_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/arith/lanes.h"
#include "kernels/arith/run_errors.h"
#include "kernels/plan/error_statistics.h"

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

// Adds a run's sum to its bin. Runs of a tensor have few exponents: threads of
// a warp that are here for the same bin add up first. (Some may be here for the
// other copy.)
__device__ __forceinline__ void AddSum(const SquareSum<Scalar>& sum,
                                       ErrorSums::Squares* to) {
  const SquareTerm term = TermOf(sum.bits, sum.exponent);
  uint64_t* const bin = &to->bins[term.bin];
  const unsigned same = __match_any_sync(
      __activemask(), static_cast<uint32_t>(reinterpret_cast<uintptr_t>(bin)));
  // The sum of 32 of them has more than 32 bits.
  const uint64_t low = __reduce_add_sync(same, term.value & 0xFFFFu);
  const uint64_t high = __reduce_add_sync(same, term.value >> 16);
  if (threadIdx.x % 32 == static_cast<unsigned>(__ffs(same)) - 1) {
    AddTo(bin, low + (high << 16));
  }
}

__device__ __forceinline__ void AddErrors(const RunErrors<Scalar>& run,
                                          Tally* tally, ErrorSums* sums) {
  tally->elements += run.elements;
  tally->clipped += run.clipped;
  tally->flushed += run.flushed;
  tally->max_error =
      run.max_error > tally->max_error ? run.max_error : tally->max_error;
  AddSum(run.signal, &sums->signal);
  AddSum(run.noise, &sums->noise);
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

#endif  // QUANTD_KERNELS_CUDA_ENCODE_GENERIC_STATISTICS_CUH_
