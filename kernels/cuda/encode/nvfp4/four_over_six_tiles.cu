// NVFP4 by tiles, made by 4over6: the columnwise copy or both. (Nothing is
// rotated then.)
#include "kernels/cuda/encode/nvfp4/four_over_six.cuh"
#include "kernels/cuda/encode/nvfp4/tile_encode.cuh"

namespace quantd::cuda {
namespace {

template <DType D, bool kMse>
struct BetterCoding {
  static constexpr DType kType = D;
  static constexpr bool kUnrolls = false;
  static constexpr bool kPicks = true;
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
      return EncodeBetter<D, kMse, true>(x, max, table_,
                                         args_.params.fast_error, unit);
    }
    __device__ __forceinline__ Unit Rare(const Words& x, const float* /*signs*/,
                                         float /*amax*/, uint32_t /*i*/) const {
      return EncodeOpen<D, kMse>(args_.params, x, table_, args_.seen);
    }

   private:
    const EncodeArgs& args_;
    const Table& table_;
  };
};
template <DType D>
using ByMse = BetterCoding<D, true>;
template <DType D>
using ByMae = BetterCoding<D, false>;

template <Copying kRow>
cudaError_t LaunchMetric(const EncodeArgs& a, const Queue& queue) {
  return a.params.four_over_six == FourOverSix::kMse
             ? LaunchTiles<ByMse, kRow, Copying::kPlain>(a, queue)
             : LaunchTiles<ByMae, kRow, Copying::kPlain>(a, queue);
}

}  // namespace

cudaError_t LaunchEncodeNvfp4FourOverSixTiles(const EncodeArgs& a,
                                              const Queue& queue) {
  if (a.first.columnwise.data == nullptr) return cudaErrorInvalidValue;
  return a.first.rowwise.data == nullptr
             ? LaunchMetric<Copying::kNone>(a, queue)
             : LaunchMetric<Copying::kPlain>(a, queue);
}

}  // namespace quantd::cuda
