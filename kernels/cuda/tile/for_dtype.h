// From a run-time element type to a constant.
#ifndef QUANTD_KERNELS_CUDA_TILE_FOR_DTYPE_H_
#define QUANTD_KERNELS_CUDA_TILE_FOR_DTYPE_H_

#include <cuda_runtime_api.h>

#include "kernels/plan/format.h"

namespace quantd::cuda {

// Calls launch.operator()<D>() for one of the types that tensors have;
// cudaErrorInvalidValue for any other.
template <typename F>
cudaError_t ForDType(DType dtype, const F& launch) {
  switch (dtype) {
    case DType::kF32:
      return launch.template operator()<DType::kF32>();
    case DType::kF16:
      return launch.template operator()<DType::kF16>();
    case DType::kBF16:
      return launch.template operator()<DType::kBF16>();
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_FOR_DTYPE_H_
