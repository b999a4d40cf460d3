// NVFP4 by tiles, rounded to nearest: the columnwise copy, both copies, and any
// copies with dbias.
#include "kernels/cuda/encode/nvfp4/tile_encode.cuh"

namespace quantd::cuda {
namespace {

template <DType D>
struct NearestCoding {
  static constexpr DType kType = D;
  static constexpr int kTeams = 2;
  static constexpr bool kPicks = false;
  static constexpr bool kMayNotFit = D == DType::kBF16 && !kConvertsE2M1;
  static constexpr bool kPairs = kMayNotFit;
  static constexpr bool kSquare = false;
  static constexpr bool kSmallGroups = true;
  using Table = typename BlockCoding<D>::Table;

  struct Launched {
    explicit Launched(const EncodeArgs& /*a*/) {}
  };

  template <bool kColumns>
  class Lines {
   public:
    __device__ __forceinline__ Lines(const EncodeArgs& a,
                                     const Launched& /*launched*/,
                                     const Table& table,
                                     const GroupTask& /*task*/,
                                     const Place& /*at*/, uint32_t /*first*/,
                                     uint32_t /*apart*/)
        : args_(a), coding_(table) {}

    __device__ __forceinline__ bool any() const { return coding_.any(); }
    __device__ __forceinline__ bool fits() const { return coding_.fits(); }
    template <bool kFits>
    __device__ __forceinline__ uint2 Codes(const Words& x, uint32_t block,
                                           uint32_t scale, uint32_t max) const {
      return coding_.template Codes<kFits>(x, block, scale, max);
    }
    __device__ __forceinline__ Unit Rare(const Words& x, const float* signs,
                                         float amax, uint32_t /*i*/) const {
      return EncodeRare<D>(args_.params, x, signs, amax, nullptr, args_.seen);
    }

   private:
    const EncodeArgs& args_;
    const BlockCoding<D> coding_;
  };
};

}  // namespace

cudaError_t LaunchEncodeNvfp4Tiles(const EncodeArgs& a, const Queue& queue) {
  return LaunchTiles<NearestCoding, true, true>(a, queue);
}

}  // namespace quantd::cuda
