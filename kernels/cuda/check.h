// Converts CUDA errors to statuses. Code in this folder checks the result of
// every CUDA call, or a comment says why the result does not matter.
#ifndef QUANTD_KERNELS_CUDA_CHECK_H_
#define QUANTD_KERNELS_CUDA_CHECK_H_

#include <cuda_runtime_api.h>

#include <string_view>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "kernels/device/out_of_memory.h"

namespace quantd::cuda {

// OK, or an error that names the step: OutOfMemoryError for lack of device
// memory, else INTERNAL. Clears an error that is not sticky.
inline absl::Status CudaStatus(cudaError_t error, std::string_view step) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // clears the error: it is handled here
  const std::string text =
      fmt::format("CUDA: {}: {}", step, cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? OutOfMemoryError(text)
                                            : absl::InternalError(text);
}

// Returns the error of a CUDA call from a function that returns a Status or a
// StatusOr.
#define QUANTD_CUDA_RETURN(call, step)                                        \
  do {                                                                        \
    if (absl::Status s = ::quantd::cuda::CudaStatus((call), (step)); !s.ok()) \
      return s;                                                               \
  } while (false)

// Returns the error of a CUDA call from a function that returns cudaError_t.
#define QUANTD_CUDA_TRY(call)                                     \
  do {                                                            \
    if (const cudaError_t e = (call); e != cudaSuccess) return e; \
  } while (false)

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_CHECK_H_
