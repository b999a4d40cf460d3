#include "kernels/cuda/encode/nvfp4/quantize.cuh"

namespace quantd::cuda {
template cudaError_t LaunchQuantizeFrom<DType::kF16>(const QuantizeArgs&,
                                                     const Queue&);
}  // namespace quantd::cuda
