// FP8 by the frame, with a scale for a tensor, a line or 128 of its elements:
// what kernels/cuda/encode/fp8 has no kernel for.
#include "kernels/cuda/encode/frame/encode.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

template <Coding kCoding>
using Lines = Cell<kCoding, Scaling::kTensor, 0, false, false>;
using Blocks = Cell<Coding::kFp8, Scaling::kBlock, 128, false, false>;

}  // namespace

cudaError_t LaunchFp8Frame(const EncodeArgs& a, const Queue& queue) {
  if (a.params.scaling == Scaling::kBlock)
    return LaunchFrameOf<Blocks>(a, queue);
  return a.params.numerics.other
             ? LaunchFrameOf<Lines<Coding::kFp8Other>>(a, queue)
             : LaunchFrameOf<Lines<Coding::kFp8>>(a, queue);
}

}  // namespace quantd::cuda
