#include "kernels/cuda/encode_fp8_rows.cuh"

namespace quantd::cuda {
template cudaError_t LaunchEncodeFp8Of<Scaling::kBlock>(const EncodeArgs&,
                                                        const Queue&);
}  // namespace quantd::cuda
