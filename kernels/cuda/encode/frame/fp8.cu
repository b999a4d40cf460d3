// FP8 by the frame, with a scale for a tensor, for a line or for 128 elements
// of a line. Used if kernels/cuda/encode/fp8 has no kernel for the plan.
#include "kernels/cuda/encode/frame/encode.cuh"

namespace quantd::cuda {
namespace {

template <Coding kCoding>
using Lines = Cell<kCoding, Scaling::kTensor, 0, false, false>;
using Blocks = Cell<Coding::kFp8, Scaling::kBlock, 128, false, false>;

}  // namespace

cudaError_t LaunchFrameFp8Lines(const EncodeArgs& a, const Queue& queue) {
  return LaunchFrame<Lines<Coding::kFp8>>(a, queue);
}

cudaError_t LaunchFrameFp8LinesOfProfiles(const EncodeArgs& a,
                                          const Queue& queue) {
  return LaunchFrame<Lines<Coding::kFp8Other>>(a, queue);
}

cudaError_t LaunchFrameFp8Blocks(const EncodeArgs& a, const Queue& queue) {
  return LaunchFrame<Blocks>(a, queue);
}

}  // namespace quantd::cuda
