// NVFP4, rowwise copy alone, rounded to nearest.
#include "kernels/cuda/encode/nvfp4/nearest.cuh"
#include "kernels/cuda/encode/nvfp4/walk.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

template <DType D, bool kRht>
struct Coder {
  static constexpr DType kType = kWalked<D, kRht>;
  const EncodeArgs& a;
  GroupState* group;
  float s_inv6 = 0.0f;
  bool exact = false;  // a 64th of every multiplier

  __device__ __forceinline__ void Settle() { group->Settle(a); }
  __device__ __forceinline__ void Begin(int64_t /*row*/, int64_t /*b*/) {
    s_inv6 = group->row.s_inv6;
    exact = group->row.of[0x7E] >= 0x1p-100f;  // the smallest
  }
  __device__ __forceinline__ bool Encode(const Words& x, Unit* unit) {
    const uint32_t max = LargerHalf<kType>(LargestOfSigned<kType>(x));
    const float wanted = __uint_as_float(max) * s_inv6;
    unit->scale = E4M3Of(wanted);
    unit->codes = NearestCodes<kType>(x, group->row.of[unit->scale] * 0x1p-6f);
    return !IsRare(max, wanted) && exact;
  }
  __device__ __forceinline__ Unit EncodeRare(const Words& x, int64_t /*row*/,
                                             int64_t /*b*/) const {
    const CopyTask& copy = group->task.rowwise;
    return cuda::EncodeRare<D>(a.params, x,
                               copy.signs != nullptr ? a.signs : nullptr,
                               *copy.amax, nullptr, a.seen);
  }
};

template <DType D, bool kRht>
__global__ void __launch_bounds__(kThreads, RowWalk::kResident)
    EncodeNvfp4Rows(const __grid_constant__ EncodeArgs a,
                    const __grid_constant__ RowWalk walk) {
  __shared__ GroupState group;
  Coder<D, kRht> coder = {a, &group};
  WalkRows<D, kRht>(a, walk, &coder);
}

template <bool kRht>
cudaError_t LaunchRows(const EncodeArgs& a, const Queue& queue) {
  const RowWalk walk(a, queue);
  return ForTwoByteType(a, [&](auto type) {
    return LaunchEarly(&EncodeNvfp4Rows<type(), kRht>, walk.Grid(a), kThreads,
                       0, queue, a, walk);
  });
}

}  // namespace

cudaError_t LaunchEncodeNvfp4Rows(const EncodeArgs& a, const Queue& queue) {
  return a.first.rowwise.signs != nullptr ? LaunchRows<true>(a, queue)
                                          : LaunchRows<false>(a, queue);
}

}  // namespace quantd::cuda
