// The stream that kernels are queued on, and facts about its device.
#ifndef QUANTD_KERNELS_CUDA_QUEUE_H_
#define QUANTD_KERNELS_CUDA_QUEUE_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/kernels.h"

namespace quantd::cuda {

struct Queue {
  cudaStream_t stream;
  int multiprocessors;
  SharedMemory shared_memory;
  // A number in device memory that is 0 if no kernel of the stream runs (see
  // TileSource).
  uint32_t* tickets;
  // Whether the last queued work is a kernel of the same job. The next kernel
  // may then start while that kernel still runs
  // (kernels/cuda/ptx/next_kernel.cuh).
  bool follows = false;
};

// Reads an attribute of the current device.
inline cudaError_t FindAttribute(cudaDeviceAttr attribute, int* value) {
  int device = 0;
  const cudaError_t error = cudaGetDevice(&device);
  return error == cudaSuccess ? cudaDeviceGetAttribute(value, attribute, device)
                              : error;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_QUEUE_H_
