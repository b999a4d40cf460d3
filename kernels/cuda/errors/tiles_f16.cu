#include "kernels/cuda/errors/tiles.cuh"

namespace quantd::cuda {
template cudaError_t LaunchCountErrorsOfTilesOf<DType::kF16>(const EncodeArgs&,
                                                             const Queue&);
}  // namespace quantd::cuda
