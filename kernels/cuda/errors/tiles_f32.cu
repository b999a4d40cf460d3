#include "kernels/cuda/errors/tiles.cuh"

namespace quantd::cuda {
template cudaError_t LaunchCountErrorsOfTiles<DType::kF32>(const EncodeArgs&,
                                                           const Queue&);
}  // namespace quantd::cuda
