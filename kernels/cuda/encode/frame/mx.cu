// MXFP8 and MXFP4 by the frame.
#include "kernels/cuda/encode/frame/encode.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

template <Coding kCoding, bool kRotates>
using Blocks = Cell<kCoding, Scaling::kMx, 32, false, kRotates>;

}  // namespace

cudaError_t LaunchMxFrame(const EncodeArgs& a, const Queue& queue) {
  const bool rotated = a.rotation > 0;
  const bool other = a.params.numerics.other;
  if (a.params.element != DType::kE2M1x2) {
    if (other) return LaunchFrameOf<Blocks<Coding::kFp8Other, false>>(a, queue);
    return rotated ? LaunchFrameOf<Blocks<Coding::kFp8, true>>(a, queue)
                   : LaunchFrameOf<Blocks<Coding::kFp8, false>>(a, queue);
  }
  if (other) {
    return LaunchFrameOf<Blocks<Coding::kE2M1Other, false>>(a, queue);
  }
  return LaunchE2M1Frame<Scaling::kMx, 32>(a, queue);
}

}  // namespace quantd::cuda
