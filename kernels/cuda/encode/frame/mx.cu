// MXFP8 and MXFP4 by the frame.
#include "kernels/cuda/encode/frame/encode.cuh"

namespace quantd::cuda {
namespace {

template <Coding kCoding, bool kRotates>
using Blocks = Cell<kCoding, Scaling::kMx, 32, false, kRotates>;

}  // namespace

cudaError_t LaunchFrameMxfp4(const EncodeArgs& a, const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kE2M1, false>>(a, queue);
}

cudaError_t LaunchFrameMxfp4Rotated(const EncodeArgs& a, const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kE2M1, true>>(a, queue);
}

cudaError_t LaunchFrameMxfp4Stochastic(const EncodeArgs& a,
                                       const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kE2M1Random, false>>(a, queue);
}

cudaError_t LaunchFrameMxfp4StochasticRotated(const EncodeArgs& a,
                                              const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kE2M1Random, true>>(a, queue);
}

cudaError_t LaunchFrameMxfp4OfProfiles(const EncodeArgs& a,
                                       const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kE2M1Other, false>>(a, queue);
}

cudaError_t LaunchFrameMxfp8(const EncodeArgs& a, const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kFp8, false>>(a, queue);
}

cudaError_t LaunchFrameMxfp8Rotated(const EncodeArgs& a, const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kFp8, true>>(a, queue);
}

cudaError_t LaunchFrameMxfp8OfProfiles(const EncodeArgs& a,
                                       const Queue& queue) {
  return LaunchFrame<Blocks<Coding::kFp8Other, false>>(a, queue);
}

}  // namespace quantd::cuda
