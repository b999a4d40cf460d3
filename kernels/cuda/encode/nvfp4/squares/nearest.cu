// NVFP4's squares of 16 x 16, rounded to nearest.
#include "kernels/cuda/encode/nvfp4/nearest.cuh"
#include "kernels/cuda/encode/nvfp4/squares/squares.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

template <DType D>
class NearestSquares {
 public:
  static constexpr DType kType = D;
  using Table = typename BlockCoding<D>::Table;

  __device__ __forceinline__ NearestSquares(const EncodeArgs& /*a*/,
                                            const Table& table)
      : s_inv6_(table.s_inv6), coding_(table) {}

  // Returns the scale in the low byte, below the maximum, whose low byte is 0.
  __device__ __forceinline__ uint32_t Settle(uint32_t max, bool* rare) const {
    const float wanted = __uint_as_float(max) * s_inv6_;
    *rare = IsRare(max, wanted) || !coding_.any();
    return E4M3Of(wanted) | max;
  }
  template <typename Max>
  __device__ __forceinline__ Unit Encode(const Words& x, uint32_t block,
                                         uint32_t known,
                                         const Max& /*max*/) const {
    const uint32_t scale = known & 0xFFu;
    return {coding_.fits()
                ? coding_.template Codes<true>(x, block, scale, known)
                : coding_.template Codes<false>(x, block, scale, known),
            scale};
  }
  static __device__ __noinline__ Unit EncodeRare(const EncodeParams& p, Words x,
                                                 float amax, SquareMaxima of) {
    float v[kBlock];
    Unpack<D>(x, v);
    const LineScale<Scalar> line = MakeLineScale<Scalar>(p, amax, 1.0f);
    return EncodeUnder(p, v, MakeBlockScale<Scalar>(p, line, of.max, of.clean),
                       nullptr);
  }

 private:
  const float s_inv6_;
  const BlockCoding<D> coding_;
};

}  // namespace

cudaError_t LaunchEncodeNvfp4Squares(const EncodeArgs& a, const Queue& queue) {
  return LaunchSquares<NearestSquares>(a, queue);
}

}  // namespace quantd::cuda
