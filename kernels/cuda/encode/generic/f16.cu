#include "kernels/cuda/encode/generic/encode.cuh"

namespace quantd::cuda {
template cudaError_t LaunchEncodeSpans<DType::kF16>(const EncodeArgs&,
                                                    const Queue&);
}  // namespace quantd::cuda
