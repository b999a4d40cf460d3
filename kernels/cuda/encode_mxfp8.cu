#include "kernels/cuda/encode_fp8_rows.cuh"

namespace quantd::cuda {
template cudaError_t LaunchEncodeFp8Of<Scaling::kMx>(const EncodeArgs&,
                                                     const Queue&);
}  // namespace quantd::cuda
