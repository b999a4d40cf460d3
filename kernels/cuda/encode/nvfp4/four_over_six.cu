// NVFP4 with 4over6, rowwise copy alone. (4over6 excludes rotation.)
#include "kernels/cuda/encode/nvfp4/four_over_six.cuh"
#include "kernels/cuda/encode/nvfp4/walk.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

template <DType D, bool kMse, bool kFast>
struct Coder {
  static constexpr DType kType = D;
  static constexpr bool kGathers = false;
  const EncodeArgs& a;
  ErrorTable* errors;
  RowGroup group = {};

  __device__ __forceinline__ void Settle() {
    errors->Fill(threadIdx.x, kThreads, *group.amax, a.params.range, kFast);
    __syncthreads();
  }
  __device__ __forceinline__ void Begin(int64_t /*row*/, int64_t /*b*/) {}
  __device__ __forceinline__ bool Encode(const Words& x, Unit* unit) {
    const uint32_t max = LargerHalf<kType>(LargestOfSigned<kType>(x));
    return EncodeBetter<kType, kMse, kFast>(x, max, *errors, unit);
  }
  __device__ __forceinline__ Unit EncodeRare(const Words& x, int64_t /*row*/,
                                             int64_t /*b*/) const {
    return EncodeOpen<D, kMse, kFast>(a.params, x, *errors, a.seen);
  }
};

template <DType D, bool kMse, bool kFast>
__global__ void __launch_bounds__(kThreads, RowWalk::kResident)
    EncodeNvfp4FourOverSix(const __grid_constant__ EncodeArgs a,
                           const __grid_constant__ RowWalk walk) {
  __shared__ ErrorTable errors;
  Coder<D, kMse, kFast> coder = {a, &errors};
  WalkRows<D, false>(a, walk, &coder);
}

}  // namespace

cudaError_t LaunchEncodeNvfp4FourOverSix(const EncodeArgs& a,
                                         const Queue& queue) {
  const RowWalk walk(a, queue);
  return ForMetric(a.params, [&](auto mse, auto fast) {
    return ForTwoByteType(a, [&](auto type) {
      return LaunchEarly(&EncodeNvfp4FourOverSix<type(), mse(), fast()>,
                         walk.Grid(a), {kThreads}, queue, a, walk);
    });
  });
}

}  // namespace quantd::cuda
