// NVFP4, rowwise copy alone, rounded to nearest, each row under an amax of its
// own.
#include "kernels/cuda/encode/nvfp4/nearest.cuh"
#include "kernels/cuda/encode/nvfp4/walk.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

// What a row's amax decides. A table of multipliers for each row would take
// longer than a division for each block.
struct RowScale {
  float s_inv6;  // block maximum to what its scale should be
  float s_dec;   // 1 / S; 0: the row's blocks are for the generic functions
};

template <DType D>
struct Coder {
  static constexpr DType kType = D;
  static constexpr bool kGathers = true;
  const EncodeArgs& a;
  const int stride;  // rows from one block of a thread to the next
  RowScale* rows;    // of the chunk
  RowGroup group = {};
  int row = 0;  // the thread's next, of the chunk

  __device__ __forceinline__ void Settle() {
    const auto line = static_cast<int>(threadIdx.x);
    if (line < group.rows) {
      const Nvfp4Encode encode =
          MakeNvfp4Encode(group.amax[group.top + line], a.params.range);
      // The smallest multiplier is of the largest scale.
      const bool exact =
          Nvfp4Multiplier<Scalar>(0x7E, encode.s_dec) >= 0x1p-100f;
      rows[line] = {encode.s_inv6, exact ? encode.s_dec : 0.0f};
    }
    __syncthreads();
  }
  __device__ __forceinline__ void Begin(int64_t first, int64_t /*b*/) {
    row = static_cast<int>(first - group.top);
  }
  __device__ __forceinline__ bool Encode(const Words& x, Unit* unit) {
    const RowScale scale = rows[row];
    row += stride;
    const uint32_t max = LargerHalf<D>(LargestOfSigned<D>(x));
    const float wanted = __uint_as_float(max) * scale.s_inv6;
    unit->scale = E4M3Of(wanted);
    const float m = Nvfp4Multiplier<Scalar>(unit->scale, scale.s_dec);
    unit->codes = NearestCodes<D>(x, m * 0x1p-6f);
    return !IsRare(max, wanted) && scale.s_dec != 0.0f;
  }
  __device__ __forceinline__ Unit EncodeRare(const Words& x, int64_t line,
                                             int64_t /*b*/) const {
    return cuda::EncodeRare<D>(a.params, x, nullptr, group.amax[line], nullptr,
                               a.seen);
  }
};

template <DType D>
__global__ void __launch_bounds__(kThreads, RowWalk::kResident)
    EncodeNvfp4ScaledRows(const __grid_constant__ EncodeArgs a,
                          const __grid_constant__ RowWalk walk) {
  __shared__ RowScale rows[kTileSide];
  Coder<D> coder = {a, walk.stride, rows};
  WalkRows<D, false>(a, walk, &coder);
}

}  // namespace

cudaError_t LaunchEncodeNvfp4ScaledRows(const EncodeArgs& a,
                                        const Queue& queue) {
  const RowWalk walk(a, queue);
  return ForTwoByteType(a, [&](auto type) {
    return LaunchEarly(&EncodeNvfp4ScaledRows<type()>, walk.Grid(a), {kThreads},
                       queue, a, walk);
  });
}

}  // namespace quantd::cuda
