#include "kernels/cuda/encode/fp8/rows.cuh"

namespace quantd::cuda {
template cudaError_t LaunchFp8Rows<Scaling::kBlock>(const EncodeArgs&,
                                                    const Queue&);
template cudaError_t LaunchFp8Tiles<Scaling::kBlock>(const EncodeArgs&,
                                                     const Queue&);
}  // namespace quantd::cuda
