#include "kernels/cuda/errors/count.cuh"

namespace quantd::cuda {
template cudaError_t LaunchCountErrors<DType::kBF16>(const EncodeArgs&,
                                                     const Queue&);
}  // namespace quantd::cuda
