// NVFP4 by the frame: what kernels/cuda/encode/nvfp4 has no kernel for.
#include "kernels/cuda/encode/frame/encode.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

template <Coding kCoding, bool kRotates>
using Blocks = Cell<kCoding, Scaling::kNvfp4, 16, false, kRotates>;

}  // namespace

cudaError_t LaunchNvfp4Frame(const EncodeArgs& a, const Queue& queue) {
  if (a.params.numerics.other) {
    return LaunchFrameOf<Blocks<Coding::kE2M1Other, false>>(a, queue);
  }
  if (TriesTwoScales(a.params)) {
    return LaunchFrameOf<Blocks<Coding::kFourOverSix, false>>(a, queue);
  }
  return LaunchE2M1Frame<Scaling::kNvfp4, 16>(a, queue);
}

}  // namespace quantd::cuda
