// NVFP4 by tiles, rounded stochastically: the columnwise copy or both, and
// squares. The two copies of a square have different random bytes, so each is
// encoded from its own lines.
#include "kernels/cuda/encode/nvfp4/stochastic_tiles.cuh"

namespace quantd::cuda {
namespace {

template <DType D>
using OfBlocks = StochasticCoding<D, false>;
template <DType D>
using OfSquares = StochasticCoding<D, true>;

}  // namespace

cudaError_t LaunchEncodeNvfp4StochasticTiles(const EncodeArgs& a,
                                             const Queue& queue) {
  return LaunchTiles<OfBlocks, true, false>(a, queue);
}

cudaError_t LaunchEncodeNvfp4StochasticSquares(const EncodeArgs& a,
                                               const Queue& queue) {
  return LaunchTiles<OfSquares, false, true>(a, queue);
}

}  // namespace quantd::cuda
