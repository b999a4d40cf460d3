// FP8 by the frame, with a scale for a tensor, a line or 128 of its elements:
// what kernels/cuda/encode/fp8 has no kernel for.
#include "kernels/cuda/encode/frame/encode.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

using Lines = Cell<Coding::kFp8, Scaling::kTensor, 0, false, false>;
using Blocks = Cell<Coding::kFp8, Scaling::kBlock, 128, false, false>;

}  // namespace

cudaError_t LaunchFp8Frame(const EncodeArgs& a, const Queue& queue) {
  return a.params.scaling == Scaling::kBlock ? LaunchFrameOf<Blocks>(a, queue)
                                             : LaunchFrameOf<Lines>(a, queue);
}

}  // namespace quantd::cuda
