// The Coding for stochastic rounding of NVFP4 by tiles (see tile_encode.cuh).
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_STOCHASTIC_TILES_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_STOCHASTIC_TILES_CUH_

#include "kernels/cuda/encode/nvfp4/stochastic.cuh"
#include "kernels/cuda/encode/nvfp4/tile_encode.cuh"

namespace quantd::cuda {

template <DType D, bool kSquare>
__device__ __noinline__ Unit EncodeRareAt(const EncodeArgs& a, bool columnwise,
                                          int64_t group_row, int64_t line,
                                          int64_t position, const Words& x,
                                          const float* signs, float amax) {
  const RandomBytes<Scalar> bytes =
      DrawBytesOfSpan<Scalar>(a.params, columnwise, group_row, line, position);
  if constexpr (!kSquare) {
    return EncodeRare<D>(a.params, x, signs, amax, &bytes, a.seen);
  }
  float v[kBlock];
  Unpack<D>(x, v);
  uint32_t max, clean;
  FindMaxima<Scalar>(v, kBlock, &max, &clean);
  Report(SeenIn(max, clean), a.seen);
  const uint32_t square = 0xFFFFu << (threadIdx.x & 16);
  max = LargestOfSixteen(max, square);
  clean = LargestOfSixteen(clean, square);
  const LineScale<Scalar> of_line = MakeLineScale<Scalar>(a.params, amax, 1.0f);
  return EncodeUnder(a.params, v,
                     MakeBlockScale<Scalar>(a.params, of_line, max, clean),
                     &bytes);
}

// kSquares says that blocks are squares.
template <DType D, bool kSquares>
struct StochasticCoding {
  static constexpr DType kType = D;
  static constexpr int kTeams = 2;
  static constexpr bool kPicks = false;
  static constexpr bool kMayNotFit = false;
  static constexpr bool kPairs = false;
  static constexpr bool kSquare = kSquares;
  static constexpr bool kSmallGroups = !kSquares;
  using Table = Multipliers;

  struct Launched : PhiloxStreams {
    explicit Launched(const EncodeArgs& a) : PhiloxStreams(a.params) {}
  };

  // The random bytes of a block come from one counter (see DrawBytes), because
  // blocks begin where the sixteen positions of a counter begin.
  template <bool kColumns>
  class Lines {
   public:
    __device__ __forceinline__ Lines(const EncodeArgs& a,
                                     const Launched& launched,
                                     const Table& table, const GroupTask& task,
                                     const Place& at, uint32_t first,
                                     uint32_t apart)
        : args_(a),
          random_(launched),
          of_(Kept(SharedAddress(table.of))),
          task_(task),
          at_(at),
          first_(first),
          apart_(apart) {
      counter_ = CounterAt(a.params, kColumns, task.row, Line(), Position(0));
    }

    __device__ __forceinline__ bool any() const { return true; }
    // Must be called for the lane's blocks in order.
    template <bool kFits>
    __device__ __forceinline__ uint2 Codes(const Words& x, uint32_t /*block*/,
                                           uint32_t scale, uint32_t /*max*/) {
      uint32_t words[4];
      random_.Draw(kColumns, counter_, words);
      counter_ += CounterStep(args_.params, kColumns);
      const float m = __uint_as_float(LoadShared(of_ + scale * sizeof(float)));
      return StochasticCodes<D>(x, m, words);
    }
    __device__ __forceinline__ Unit Rare(const Words& x, const float* signs,
                                         float amax, uint32_t i) const {
      return EncodeRareAt<D, kSquares>(args_, kColumns, task_.row, Line(),
                                       Position(i), x, signs, amax);
    }

   private:
    // The lane's line in the group, and the position where its i-th block
    // begins.
    __device__ __forceinline__ uint32_t Line() const {
      return (kColumns ? at_.col : at_.row) + first_ +
             threadIdx.x % kWarp % kBlock;
    }
    __device__ __forceinline__ uint32_t Position(uint32_t i) const {
      return (kColumns ? at_.row : at_.col) +
             (threadIdx.x % kWarp / kBlock * apart_ + i) * kBlock;
    }

    const EncodeArgs& args_;
    const PhiloxStreams& random_;
    const uint32_t of_;
    const GroupTask& task_;
    const Place& at_;
    const uint32_t first_;
    const uint32_t apart_;
    uint64_t counter_;
  };
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_STOCHASTIC_TILES_CUH_
