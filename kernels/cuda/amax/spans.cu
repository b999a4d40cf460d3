#include "kernels/cuda/amax/spans.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx/next_kernel.cuh"

namespace quantd::cuda {
namespace {

// --- kernel -----------------------------------------------------------------

template <DType D, int N>
__global__ void __launch_bounds__(kThreads)
    AmaxOfSpans(const __grid_constant__ SpanAmaxArgs a) {
  LetNextKernelStart();
  AwaitKernelBefore();
  const int64_t tiles = TileCount(a.list);
  uint32_t seen = 0;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    seen |= FindInTile<D, N>(a, FindTile(a.list, t));
  }
  Report(seen, a.seen);
}

// --- launchers --------------------------------------------------------------

template <DType D>
cudaError_t LaunchFor(const SpanAmaxArgs& a, const Queue& queue) {
  const bool rotates = a.row_signs != nullptr || a.col_signs != nullptr;
  return ForSpanSize(rotates ? a.rotation : kBlock, [&](auto size) {
    return LaunchEarly(&AmaxOfSpans<D, decltype(size)::value>,
                       GridFor(TileCount(a.list), 8, queue), {kThreads}, queue,
                       a);
  });
}

}  // namespace

cudaError_t LaunchAmaxOfSpans(const SpanAmaxArgs& a, const Queue& queue) {
  return ForDType(a.dtype, [&](auto d) { return LaunchFor<d()>(a, queue); });
}

}  // namespace quantd::cuda
