#include "kernels/cuda/quantize.cuh"

namespace quantd::cuda {
template cudaError_t LaunchQuantizeFrom<DType::kF16>(const QuantizeArgs&,
                                                     const Queue&);
}  // namespace quantd::cuda
