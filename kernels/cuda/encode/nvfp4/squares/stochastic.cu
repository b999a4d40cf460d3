// NVFP4's squares of 16 x 16, rounded stochastically. A copy's random bytes are
// its own, so that both are found, each from its own lines.
#include "kernels/cuda/encode/nvfp4/stochastic_tiles.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

template <DType D>
using OfSquares = StochasticCoding<D, true>;

}  // namespace

cudaError_t LaunchEncodeNvfp4StochasticSquares(const EncodeArgs& a,
                                               const Queue& queue) {
  if (a.first.columnwise.data == nullptr) {
    return LaunchTiles<OfSquares, Copying::kPlain, Copying::kNone>(a, queue);
  }
  return a.first.rowwise.data == nullptr
             ? LaunchTiles<OfSquares, Copying::kNone, Copying::kPlain>(a, queue)
             : LaunchTiles<OfSquares, Copying::kPlain, Copying::kPlain>(a,
                                                                        queue);
}

}  // namespace quantd::cuda
