// NVFP4, rowwise copy alone, rounded to nearest.
#include <optional>

#include "kernels/cuda/encode/nvfp4/nearest.cuh"
#include "kernels/cuda/encode/nvfp4/walk.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

// kKnown: the host knows what the only group's amax decides.
template <DType D, bool kRht, bool kKnown>
struct Coder {
  static constexpr DType kType = kWalked<D, kRht>;
  const EncodeArgs& a;
  const Multipliers& known;
  GroupState* group;
  float s_inv6 = 0.0f;
  bool exact = false;  // a 64th of every multiplier

  __device__ __forceinline__ void Settle() {
    if constexpr (kKnown) {
      if (threadIdx.x < 128) group->row.of[threadIdx.x] = known.of[threadIdx.x];
      if (threadIdx.x == 0) group->row.s_inv6 = known.s_inv6;
      __syncthreads();
    } else {
      group->Settle(a);
    }
  }
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

template <DType D, bool kRht, bool kKnown>
__global__ void __launch_bounds__(kThreads, RowWalk::kResident)
    EncodeNvfp4Rows(const __grid_constant__ EncodeArgs a,
                    const __grid_constant__ RowWalk walk,
                    const __grid_constant__ Multipliers known) {
  __shared__ GroupState group;
  Coder<D, kRht, kKnown> coder = {a, known, &group};
  WalkRows<D, kRht>(a, walk, &coder);
}

template <bool kRht>
cudaError_t LaunchRows(const EncodeArgs& a, std::optional<float> amax,
                       const Queue& queue) {
  const RowWalk walk(a, queue);
  const Multipliers known =
      amax ? Multipliers::Of(*amax, a.params.range) : Multipliers{};
  return ForTwoByteType(a, [&](auto type) {
    const auto kernel = amax ? &EncodeNvfp4Rows<type(), kRht, true>
                             : &EncodeNvfp4Rows<type(), kRht, false>;
    return LaunchEarly(kernel, walk.Grid(a), kThreads, 0, queue, a, walk,
                       known);
  });
}

}  // namespace

cudaError_t LaunchEncodeNvfp4Rows(const EncodeArgs& a,
                                  std::optional<float> amax,
                                  const Queue& queue) {
  return a.first.rowwise.signs != nullptr ? LaunchRows<true>(a, amax, queue)
                                          : LaunchRows<false>(a, amax, queue);
}

}  // namespace quantd::cuda
