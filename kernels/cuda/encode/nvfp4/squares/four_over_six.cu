// NVFP4's squares of 16 x 16, with 4over6.
#include "kernels/arith/four_over_six.h"
#include "kernels/cuda/encode/nvfp4/four_over_six.cuh"
#include "kernels/cuda/encode/nvfp4/squares/squares.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

template <DType D, bool kMse, bool kFast>
class BetterSquares {
 public:
  static constexpr DType kType = D;
  using Table = ErrorTable;

  __device__ __forceinline__ BetterSquares(const EncodeArgs& /*a*/,
                                           const Table& table)
      : table_(table) {}

  // Returns both candidate scales.
  __device__ __forceinline__ uint32_t Settle(uint32_t max, bool* rare) const {
    const float base = BaseOf(max, table_.s);
    *rare = IsRare(max, base) || !table_.ordinary;
    return ScaleForFour(base) << 8 | ScaleForSix(base);
  }
  template <typename Max>
  __device__ __forceinline__ Unit Encode(const Words& x, uint32_t /*block*/,
                                         uint32_t candidates,
                                         const Max& max) const {
    const uint32_t four = candidates >> 8;
    const uint32_t six = candidates & 0xFFu;
    const Contest<D, kMse, kFast> contest(x, table_.s, table_.of[four],
                                          table_.of[six]);
    Errors errors = SumOfLines(contest.errors());
    const float largest = __uint_as_float(max());
    if (__any_sync(0xFFFFFFFFu,
                   InDoubt<kMse>(errors, largest, kBlock, kFast))) {
      float v[kBlock];
      Unpack<D>(x, v);
      errors = SumOfLines(ExactErrors<kMse>(v, table_, four, six, kFast));
    }
    const bool better = errors.four < errors.six;
    return {contest.Codes(x, better), better ? four : six};
  }
  static __device__ __noinline__ Unit EncodeRare(const EncodeParams& p, Words x,
                                                 float amax, SquareMaxima of) {
    float v[kBlock];
    Unpack<D>(x, v);
    const LineScale<Scalar> line = MakeLineScale<Scalar>(p, amax, 1.0f);
    uint32_t four;
    uint32_t six;
    FourOverSixScales<Scalar>(line, of.clean, &four, &six);
    const Errors errors =
        SumOfLines({FourOverSixError<Scalar>(p, line, v, four),
                    FourOverSixError<Scalar>(p, line, v, six)},
                   0xFFFFu << (threadIdx.x & 16));
    const uint32_t better = FourOverSixChoice<Scalar>(
        p, of.max, four, errors.four, six, errors.six);
    return EncodeUnder(p, v, UnderScale<Scalar>(p, line, better), nullptr);
  }

 private:
  const Table& table_;
};

}  // namespace

cudaError_t LaunchEncodeNvfp4FourOverSixSquares(const EncodeArgs& a,
                                                const Queue& queue) {
  return ForMetric(a.params, [&](auto mse, auto fast) {
    return LaunchSquares<ByMetric<BetterSquares, mse(), fast()>::template Of>(
        a, queue);
  });
}

}  // namespace quantd::cuda
