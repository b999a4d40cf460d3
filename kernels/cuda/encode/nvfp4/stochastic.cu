// NVFP4, rowwise copy alone, rounded stochastically.
#include "kernels/cuda/encode/nvfp4/stochastic.cuh"
#include "kernels/cuda/encode/nvfp4/walk.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

// Steps between the counters of random bytes in a matrix.
struct Counters {
  uint64_t row;   // step from row to row
  uint64_t step;  // step from one unit of a thread to the next

  Counters(const EncodeParams& p, const RowWalk& walk)
      : row((static_cast<uint64_t>(p.total_columns) + kBlock - 1) / kBlock),
        step(static_cast<uint64_t>(walk.stride) * row) {}
};

template <DType D>
__device__ __noinline__ Unit EncodeRareAt(const EncodeArgs& a,
                                          const GroupTask& task, Words x,
                                          int64_t row, int64_t b) {
  const EncodeParams& p = a.params;
  const RandomBytes<Scalar> bytes = DrawBytes<Scalar>(
      p, false, p.row_offset + task.row + row, p.column_offset + b * kBlock);
  return EncodeRare<D>(p, x, task.rowwise.signs != nullptr ? a.signs : nullptr,
                       *task.rowwise.amax, &bytes, a.seen);
}

template <DType D, bool kRht>
struct Coder {
  static constexpr DType kType = kWalked<D, kRht>;
  static constexpr bool kGathers = false;
  const EncodeArgs& a;
  const Counters& counters;
  const PhiloxStreams& random;
  Multipliers* table;
  RowGroup group = {};
  float s_inv6 = 0.0f;
  uint64_t next = 0;  // next counter

  __device__ __forceinline__ void Settle() {
    LoadCodeTable(CodeTableAt(a.tables, group.number, 0), table);
    __syncthreads();
  }
  __device__ __forceinline__ void Begin(int64_t row, int64_t b) {
    const int64_t m = a.params.row_offset + group.row + row;
    next = static_cast<uint64_t>(m) * counters.row +
           static_cast<uint64_t>(a.params.column_offset / kBlock + b);
    s_inv6 = table->s_inv6;
  }
  __device__ __forceinline__ bool Encode(const Words& x, Unit* unit) {
    const uint32_t max = LargerHalf<kType>(LargestOfSigned<kType>(x));
    const float wanted = __uint_as_float(max) * s_inv6;
    unit->scale = E4M3Of(wanted);
    uint32_t words[4];
    random.Draw(false, next, words);
    next += counters.step;
    unit->codes = StochasticCodes<kType>(x, table->of[unit->scale], words);
    return !IsRare(max, wanted);
  }
  __device__ __forceinline__ Unit EncodeRare(const Words& x, int64_t row,
                                             int64_t b) const {
    return EncodeRareAt<D>(a, *group.task, x, row, b);
  }
};

template <DType D, bool kRht>
__global__ void __launch_bounds__(kThreads, RowWalk::kResident)
    EncodeNvfp4Stochastic(const __grid_constant__ EncodeArgs a,
                          const __grid_constant__ RowWalk walk,
                          const __grid_constant__ Counters counters,
                          const __grid_constant__ PhiloxStreams random) {
  __shared__ Multipliers table;
  Coder<D, kRht> coder = {a, counters, random, &table};
  WalkRows<D, kRht>(a, walk, &coder);
}

template <bool kRht>
cudaError_t Launch(const EncodeArgs& a, const Queue& queue) {
  const RowWalk walk(a, queue);
  const Counters counters(a.params, walk);
  const PhiloxStreams random(a.params);
  return ForTwoByteType(a, [&](auto type) {
    return LaunchEarly(&EncodeNvfp4Stochastic<type(), kRht>, walk.Grid(a),
                       {kThreads}, queue, a, walk, counters, random);
  });
}

}  // namespace

cudaError_t LaunchEncodeNvfp4Stochastic(const EncodeArgs& a,
                                        const Queue& queue) {
  return a.first.rowwise.signs != nullptr ? Launch<true>(a, queue)
                                          : Launch<false>(a, queue);
}

}  // namespace quantd::cuda
