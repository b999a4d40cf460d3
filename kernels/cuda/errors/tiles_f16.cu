#include "kernels/cuda/errors/tiles.cuh"

namespace quantd::cuda {
template cudaError_t LaunchCountErrorsOfTiles<DType::kF16>(const EncodeArgs&,
                                                           const Queue&);
}  // namespace quantd::cuda
