// Barriers in shared memory that count arrivals of threads and bytes of the
// copy engine. When all have arrived, a phase ends and the next one begins.
#ifndef QUANTD_KERNELS_CUDA_PTX_MBARRIER_CUH_
#define QUANTD_KERNELS_CUDA_PTX_MBARRIER_CUH_

#include <cstdint>

#include "kernels/cuda/ptx/shared_memory.cuh"

namespace quantd::cuda {

// Initializes a barrier for `count` arrivals in each phase.
__device__ __forceinline__ void InitBarrier(uint64_t* barrier, uint32_t count) {
  asm volatile(
      "mbarrier.init.shared.b64 [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(count)
      : "memory");
}
// Counts an arrival of this thread.
__device__ __forceinline__ void ArriveAt(uint64_t* barrier) {
  asm volatile(
      "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(
          SharedAddress(barrier))
      : "memory");
}
// Makes the current phase wait for `bytes` of the copy engine, too. Must be
// called before this thread arrives.
__device__ __forceinline__ void Expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(
                   SharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}
// Waits until the phase with this parity has ended.
__device__ __forceinline__ void WaitFor(uint64_t* barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred p;"
#if __CUDA_ARCH__ >= 900
        " mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
#else
        " mbarrier.test_wait.parity.shared.b64 p, [%1], %2;"
#endif
        " selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(SharedAddress(barrier)), "r"(parity)
        : "memory");
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_PTX_MBARRIER_CUH_
