// Random bytes of stochastic rounding for a warp's lines of a tile.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_RANDOM_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_RANDOM_CUH_

#include "kernels/cuda/encode/frame/cell.cuh"
#include "kernels/cuda/encode/nvfp4/stochastic.cuh"

namespace quantd::cuda {

// Random streams of a launch. Empty for rounding to nearest.
template <bool kDraws>
struct FrameRandom {
  explicit FrameRandom(const EncodeParams& /*p*/) {}
};
template <>
struct FrameRandom<true> : PhiloxStreams {
  using PhiloxStreams::PhiloxStreams;
};

// Stands for rounding to nearest, which draws nothing.
struct ToNearest {};

// The random words of a lane's half of a line. Each of its groups of sixteen
// positions must belong to a single counter.
class LineRandom {
 public:
  // `row` is the first row in the payload of the line's group.
  __device__ __forceinline__ LineRandom(const FrameRandom<true>& random,
                                        const EncodeParams& p, bool columns,
                                        int64_t row, int64_t line,
                                        int64_t position)
      : random_(random),
        columns_(columns),
        first_(CounterAt(p, columns, row, line, position)),
        step_(CounterStep(p, columns)) {}

  // Draws the words of the i-th group of sixteen positions.
  __device__ __forceinline__ void Draw(uint32_t i, uint32_t (&words)[4]) const {
    random_.Draw(columns_, first_ + i * step_, words);
  }

 private:
  const PhiloxStreams& random_;
  const bool columns_;
  const uint64_t first_;
  const uint64_t step_;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_RANDOM_CUH_
