#include "kernels/cuda/encode_fp8.cuh"

namespace quantd::cuda {
template cudaError_t LaunchEncodeTiles<Scaling::kBlock>(const EncodeArgs&,
                                                        const Queue&);
}  // namespace quantd::cuda
