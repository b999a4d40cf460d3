// A kernel that starts while the one before it on the stream still runs, which
// hides what a start costs (sm_90 and later; elsewhere kernels follow each
// other as ever). It waits on its own before it reads what that one writes.
#ifndef QUANTD_KERNELS_CUDA_PTX_NEXT_KERNEL_CUH_
#define QUANTD_KERNELS_CUDA_PTX_NEXT_KERNEL_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/queue.h"

namespace quantd::cuda {

// The next kernel may take what multiprocessors have to spare as soon as every
// CTA has called this or has ended.
__device__ __forceinline__ void LetNextKernelStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Until the kernel before has ended and what it wrote can be read. Every thread
// of a kernel that was launched by LaunchEarly must call this.
__device__ __forceinline__ void AwaitKernelBefore() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// How a CTA is launched.
struct CtaShape {
  unsigned threads;
  size_t shared_bytes = 0;  // dynamic ones
};

// Launches a kernel early if it follows one. What it reads before it waits was
// there before the job's first kernel started.
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
