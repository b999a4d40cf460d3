#include "kernels/cuda/encode_fp8.cuh"

namespace quantd::cuda {
template cudaError_t LaunchEncodeTiles<Scaling::kMx>(const EncodeArgs&,
                                                     const Queue&);
}  // namespace quantd::cuda
