// NVFP4 by tiles, rounded stochastically: the columnwise copy or both.
#include "kernels/cuda/encode/nvfp4/stochastic_tiles.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

template <DType D>
using OfBlocks = StochasticCoding<D, false>;

}  // namespace

cudaError_t LaunchEncodeNvfp4StochasticTiles(const EncodeArgs& a,
                                             const Queue& queue) {
  if (a.params.square) return LaunchEncodeNvfp4StochasticSquares(a, queue);
  if (a.first.columnwise.data == nullptr) return cudaErrorInvalidValue;
  if (a.first.rowwise.data == nullptr) {
    return LaunchTilesOfColumns<OfBlocks, Copying::kNone>(a, queue);
  }
  return a.first.rowwise.signs != nullptr
             ? LaunchTilesOfColumns<OfBlocks, Copying::kRotated>(a, queue)
             : LaunchTilesOfColumns<OfBlocks, Copying::kPlain>(a, queue);
}

}  // namespace quantd::cuda
