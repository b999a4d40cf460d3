#include "kernels/cuda/errors/count.cuh"

namespace quantd::cuda {
template cudaError_t LaunchCountErrorsOfSpansOf<DType::kF16>(const EncodeArgs&,
                                                             const Queue&);
}  // namespace quantd::cuda
