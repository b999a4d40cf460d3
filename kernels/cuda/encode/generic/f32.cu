#include "kernels/cuda/encode/generic/encode.cuh"

namespace quantd::cuda {
template cudaError_t LaunchEncodeSpansOf<DType::kF32>(const EncodeArgs&,
                                                      const Queue&);
}  // namespace quantd::cuda
