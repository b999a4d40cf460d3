// Reduces maxima over the threads of a CTA.
#ifndef QUANTD_KERNELS_CUDA_AMAX_REDUCE_CUH_
#define QUANTD_KERNELS_CUDA_AMAX_REDUCE_CUH_

#include "kernels/cuda/tile/element.cuh"

namespace quantd::cuda {

// Raises `*to` to `bits`, atomically. Bits of non-negative floats have the
// order of the floats. The initial value of `*to` must be zero.
__device__ __forceinline__ void RaiseTo(uint32_t bits, uint32_t* to) {
  if (bits != 0) atomicMax(to, bits);
}

// Raises `*to` to the maximum of `value` over the threads of the CTA. All
// threads must call this.
__device__ __forceinline__ void ReduceTo(uint32_t value, uint32_t* to) {
  __shared__ uint32_t warps[kThreads / 32];
  value = __reduce_max_sync(0xFFFFFFFFu, value);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x < 32) {
    value = threadIdx.x < kThreads / 32 ? warps[threadIdx.x] : 0;
    value = __reduce_max_sync(0xFFFFFFFFu, value);
    if (threadIdx.x == 0) RaiseTo(value, to);
  }
  __syncthreads();
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_AMAX_REDUCE_CUH_
