// NVFP4 with 4over6 by tiles: the columnwise copy or both. (4over6 excludes
// rotation.)
#include "kernels/cuda/encode/nvfp4/four_over_six.cuh"
#include "kernels/cuda/encode/nvfp4/tile_encode.cuh"

namespace quantd::cuda {
namespace {

template <DType D, bool kMse, bool kFast>
struct BetterCoding {
  static constexpr DType kType = D;
  static constexpr int kTeams = 3;
  static constexpr bool kPicks = true;
  static constexpr bool kMayNotFit = false;
  static constexpr bool kPairs = false;
  static constexpr bool kSquare = false;
  static constexpr bool kSmallGroups = false;
  using Table = ErrorTable;

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
        : args_(a), table_(table) {}

    __device__ __forceinline__ bool Pick(const Words& x, uint32_t max,
                                         Unit* unit) const {
      return EncodeBetter<D, kMse, kFast>(x, max, table_, unit);
    }
    __device__ __forceinline__ Unit Rare(const Words& x, const float* /*signs*/,
                                         float /*amax*/, uint32_t /*i*/) const {
      return EncodeOpen<D, kMse, kFast>(args_.params, x, table_, args_.seen);
    }

   private:
    const EncodeArgs& args_;
    const Table& table_;
  };
};

}  // namespace

cudaError_t LaunchEncodeNvfp4FourOverSixTiles(const EncodeArgs& a,
                                              const Queue& queue) {
  return ForMetric(a.params, [&](auto mse, auto fast) {
    using By = ByMetric<BetterCoding, mse(), fast()>;
    return LaunchTiles<By::template Of, false, false>(a, queue);
  });
}

}  // namespace quantd::cuda
