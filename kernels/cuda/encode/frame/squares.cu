// Squares by the frame: NVFP4's of 16 x 16 and FP8's of 128 x 128.
#include "kernels/cuda/encode/frame/encode.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

template <Coding kCoding>
using Small = Cell<kCoding, Scaling::kNvfp4, 16, true, false>;
template <Coding kCoding>
using Large = Cell<kCoding, Scaling::kBlock, 128, true, false>;

}  // namespace

cudaError_t LaunchSquaresFrame(const EncodeArgs& a, const Queue& queue) {
  if (a.params.scaling == Scaling::kBlock) {
    return a.params.numerics.other
               ? LaunchFrameOf<Large<Coding::kFp8Other>>(a, queue)
               : LaunchFrameOf<Large<Coding::kFp8>>(a, queue);
  }
  if (a.params.stochastic) {
    return LaunchFrameOf<Small<Coding::kE2M1Random>>(a, queue);
  }
  return TriesTwoScales(a.params)
             ? LaunchFrameOf<Small<Coding::kFourOverSix>>(a, queue)
             : LaunchFrameOf<Small<Coding::kE2M1>>(a, queue);
}

}  // namespace quantd::cuda
