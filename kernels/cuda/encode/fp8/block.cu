#include "kernels/cuda/encode/fp8/rows.cuh"

namespace quantd::cuda {
template cudaError_t LaunchEncodeFp8Of<Scaling::kBlock>(const EncodeArgs&,
                                                        const Queue&);
}  // namespace quantd::cuda
