#include "kernels/cuda/encode/nvfp4/quantize.cuh"

namespace quantd::cuda {
template cudaError_t LaunchQuantizeRows<DType::kF32>(const EncodeArgs&,
                                                     const Queue&);
template cudaError_t LaunchQuantizeTiles<DType::kF32>(const EncodeArgs&,
                                                      const Queue&);
}  // namespace quantd::cuda
