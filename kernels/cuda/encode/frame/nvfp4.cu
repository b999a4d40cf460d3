// NVFP4 by the frame. Used if kernels/cuda/encode/nvfp4 has no kernel for the
// plan.
#include "kernels/cuda/encode/frame/encode.cuh"

namespace quantd::cuda {
namespace {

template <Coding kCoding, bool kRotates>
using Blocks = Cell<kCoding, Scaling::kNvfp4, 16, false, kRotates>;

}  // namespace

cudaError_t LaunchFrameNvfp4(const EncodeArgs& a, const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kE2M1, false>>(a, queue);
}

cudaError_t LaunchFrameNvfp4Rotated(const EncodeArgs& a, const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kE2M1, true>>(a, queue);
}

cudaError_t LaunchFrameNvfp4Stochastic(const EncodeArgs& a,
                                       const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kE2M1Random, false>>(a, queue);
}

cudaError_t LaunchFrameNvfp4StochasticRotated(const EncodeArgs& a,
                                              const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kE2M1Random, true>>(a, queue);
}

cudaError_t LaunchFrameNvfp4FourOverSix(const EncodeArgs& a,
                                        const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kFourOverSix, false>>(a, queue);
}

cudaError_t LaunchFrameNvfp4ScaleSearch(const EncodeArgs& a,
                                        const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kScaleSearch, false>>(a, queue);
}

cudaError_t LaunchFrameNvfp4OfProfiles(const EncodeArgs& a,
                                       const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kE2M1Other, false>>(a, queue);
}

}  // namespace quantd::cuda
