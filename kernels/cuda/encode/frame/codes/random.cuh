// Random bytes of stochastic rounding for a warp's lines of a tile.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_RANDOM_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_RANDOM_CUH_

#include "kernels/cuda/encode/frame/cell.cuh"
#include "kernels/cuda/encode/nvfp4/stochastic.cuh"

namespace quantd::cuda {

// What all of a launch share: the random numbers of each copy. Made by the
// host.
template <bool kDraws>
struct FrameRandom {
  explicit FrameRandom(const EncodeParams& /*p*/) {}
};
template <>
struct FrameRandom<true> {
  PhiloxStream copies[2];

  explicit FrameRandom(const EncodeParams& p)
      : copies{PhiloxStream(p.subsequence, p.seed),
               PhiloxStream(p.subsequence + 1, p.seed)} {}
};

// Rounding to nearest: nothing is drawn.
struct ToNearest {};

// The random words of a lane's half of a line, whose sixteens begin where those
// of a counter do.
class LineRandom {
 public:
  // Of a line of a group whose first row in the payload is `row`.
  __device__ __forceinline__ LineRandom(const FrameRandom<true>& random,
                                        const EncodeParams& p, bool columns,
                                        int64_t row, int64_t line,
                                        int64_t position)
      : stream_(random.copies[columns]) {
    row += p.row_offset;
    const auto across = static_cast<uint64_t>(p.total_columns);
    if (columns) {
      first_ = static_cast<uint64_t>(row + position) / kBlock * across +
               static_cast<uint64_t>(p.column_offset + line);
      step_ = across;
    } else {
      first_ =
          static_cast<uint64_t>(row + line) * ((across + kBlock - 1) / kBlock) +
          static_cast<uint64_t>(p.column_offset + position) / kBlock;
      step_ = 1;
    }
  }

  // Those of its sixteen number i.
  __device__ __forceinline__ void Draw(uint32_t i, uint32_t (&words)[4]) const {
    stream_.Draw(first_ + i * step_, words);
  }

 private:
  const PhiloxStream& stream_;
  uint64_t first_;
  uint64_t step_;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_RANDOM_CUH_
