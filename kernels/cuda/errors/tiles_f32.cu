#include "kernels/cuda/errors/tiles.cuh"

namespace quantd::cuda {
template cudaError_t LaunchCountErrorsOfTilesOf<DType::kF32>(const EncodeArgs&,
                                                             const Queue&);
}  // namespace quantd::cuda
