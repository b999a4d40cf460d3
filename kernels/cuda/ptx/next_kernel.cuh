// Starts a kernel while the one before it on the stream still runs, which hides
// the cost of starting (sm_90 and later; elsewhere kernels run one after
// another). The new kernel waits before it reads what the earlier one writes.
#ifndef QUANTD_KERNELS_CUDA_PTX_NEXT_KERNEL_CUH_
#define QUANTD_KERNELS_CUDA_PTX_NEXT_KERNEL_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/queue.h"

namespace quantd::cuda {

// Allows the next kernel to use free resources of multiprocessors as soon as
// every CTA has called this or has ended.
__device__ __forceinline__ void LetNextKernelStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Waits until the previous kernel has ended and its writes can be read. Every
// thread of a kernel launched by LaunchEarly must call this.
__device__ __forceinline__ void AwaitKernelBefore() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The shape of a CTA.
struct CtaShape {
  unsigned threads;
  size_t shared_bytes = 0;  // dynamic shared memory
};

// Launches a kernel, early if it follows another kernel of the job. Data that
// it reads before AwaitKernelBefore must have been written before the job's
// first kernel started.
template <typename... Formal, typename... Actual>
cudaError_t LaunchEarly(void (*kernel)(Formal...), dim3 grid, CtaShape cta,
                        const Queue& queue, const Actual&... args) {
  int major = 0;
  const cudaError_t error =
      FindAttribute(cudaDevAttrComputeCapabilityMajor, &major);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(cta.threads);
  config.dynamicSmemBytes = cta.shared_bytes;
  config.stream = queue.stream;
  config.attrs = &early;
  config.numAttrs = queue.follows && major >= 9 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, args...);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_PTX_NEXT_KERNEL_CUH_
