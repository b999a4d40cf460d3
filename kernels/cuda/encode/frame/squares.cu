// Squares by the frame: NVFP4's squares of 16 x 16, and FP8's of 128 x 128.
#include "kernels/cuda/encode/frame/encode.cuh"

namespace quantd::cuda {
namespace {

template <Coding kCoding>
using Small = Cell<kCoding, Scaling::kNvfp4, 16, true, false>;
template <Coding kCoding>
using Large = Cell<kCoding, Scaling::kBlock, 128, true, false>;

}  // namespace

cudaError_t LaunchFrameNvfp4Squares(const EncodeArgs& a, const Queue& queue) {
  return LaunchFrame<Small<Coding::kE2M1>>(a, queue);
}

cudaError_t LaunchFrameNvfp4StochasticSquares(const EncodeArgs& a,
                                              const Queue& queue) {
  return LaunchFrame<Small<Coding::kE2M1Random>>(a, queue);
}

cudaError_t LaunchFrameNvfp4FourOverSixSquares(const EncodeArgs& a,
                                               const Queue& queue) {
  return LaunchFrame<Small<Coding::kFourOverSix>>(a, queue);
}

cudaError_t LaunchFrameNvfp4ScaleSearchSquares(const EncodeArgs& a,
                                               const Queue& queue) {
  return LaunchFrame<Small<Coding::kScaleSearch>>(a, queue);
}

cudaError_t LaunchFrameFp8Squares(const EncodeArgs& a, const Queue& queue) {
  return LaunchFrame<Large<Coding::kFp8>>(a, queue);
}

cudaError_t LaunchFrameFp8SquaresOfProfiles(const EncodeArgs& a,
                                            const Queue& queue) {
  return LaunchFrame<Large<Coding::kFp8Other>>(a, queue);
}

}  // namespace quantd::cuda
