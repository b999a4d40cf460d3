// How tiles of NVFP4 are rounded stochastically.
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
  for (int lanes = kBlock / 2; lanes > 0; lanes /= 2) {
    const uint32_t m = __shfl_xor_sync(square, max, lanes);
    const uint32_t c = __shfl_xor_sync(square, clean, lanes);
    max = m > max ? m : max;
    clean = c > clean ? c : clean;
  }
  const LineScale<Scalar> of_line = MakeLineScale<Scalar>(a.params, amax, 1.0f);
  const BlockScale<Scalar> scale =
      MakeBlockScale<Scalar>(a.params, of_line, max, clean);
  uint32_t words[4];
  EncodeSixteen<Scalar>(a.params, v, scale.m, &bytes, words);
  return {make_uint2(words[0], words[1]), scale.stored};
}

// kSquares: of squares.
template <DType D, bool kSquares>
struct StochasticCoding {
  static constexpr DType kType = D;
  static constexpr bool kUnrolls = false;
  static constexpr bool kPicks = false;
  static constexpr bool kSquare = kSquares;
  static constexpr bool kSmallGroups = !kSquares;
  using Table = Multipliers;

  // Random numbers of each copy.
  struct Launched {
    PhiloxStream row;
    PhiloxStream col;

    explicit Launched(const EncodeArgs& a)
        : row(a.params.subsequence, a.params.seed),
          col(a.params.subsequence + 1, a.params.seed) {}
  };

  // A block's bytes are those of one counter (see DrawBytes), for rows and
  // columns begin with a counter's sixteen.
  template <bool kColumns>
  class Lines {
   public:
    __device__ __forceinline__ Lines(const EncodeArgs& a,
                                     const Launched& launched,
                                     const Table& table, const GroupTask& task,
                                     const Place& at, uint32_t first,
                                     uint32_t apart)
        : args_(a),
          random_(kColumns ? launched.col : launched.row),
          of_(Kept(SharedAddress(table.of))),
          task_(task),
          at_(at),
          first_(first),
          apart_(apart) {
      const EncodeParams& p = a.params;
      const uint32_t line = Line();
      const uint32_t position = Position(0);
      const auto row = static_cast<uint64_t>(p.row_offset + task.row);
      const auto col = static_cast<uint64_t>(p.column_offset);
      counter_ = kColumns ? (row + position) / kBlock * Step() + (col + line)
                          : (row + line) * ((across() + kBlock - 1) / kBlock) +
                                (col + position) / kBlock;
    }

    __device__ __forceinline__ bool any() const { return true; }
    // To be asked of one block after the other.
    __device__ __forceinline__ uint2 Codes(const Words& x, uint32_t /*block*/,
                                           uint32_t scale) {
      uint32_t words[4];
      random_.Draw(counter_, words);
      counter_ += Step();
      const float m = __uint_as_float(LoadShared(of_ + scale * sizeof(float)));
      return StochasticCodes<D>(x, m, words);
    }
    __device__ __forceinline__ Unit Rare(const Words& x, const float* signs,
                                         float amax, uint32_t i) const {
      return EncodeRareAt<D, kSquares>(args_, kColumns, task_.row, Line(),
                                       Position(i), x, signs, amax);
    }

   private:
    __device__ __forceinline__ uint64_t across() const {
      return static_cast<uint64_t>(args_.params.total_columns);
    }
    // From the counter of a block to the next one's.
    __device__ __forceinline__ uint64_t Step() const {
      return kColumns ? across() : 1;
    }
    // Of the group: the lane's line, and where its i-th block begins there.
    __device__ __forceinline__ uint32_t Line() const {
      return (kColumns ? at_.col : at_.row) + first_ +
             threadIdx.x % kWarp % kBlock;
    }
    __device__ __forceinline__ uint32_t Position(uint32_t i) const {
      return (kColumns ? at_.row : at_.col) +
             (threadIdx.x % kWarp / kBlock * apart_ + i) * kBlock;
    }

    const EncodeArgs& args_;
    const PhiloxStream& random_;
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
