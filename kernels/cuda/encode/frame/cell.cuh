// Compile-time parameters of a kernel of the frame. A cell stands for some
// formats and options, and uses the arithmetic of kernels/arith. Everything
// else is a run-time value that is the same in all threads: bf16 or fp16, E4M3
// or E5M2, the dimension of a rotation, rules.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_CELL_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_CELL_CUH_

#include "kernels/arith/encode.h"
#include "kernels/cuda/encode/generic/store.cuh"

namespace quantd::cuda {

// How codes are computed from values.
enum class Coding {
  kFp8,          // E4M3 or E5M2
  kE2M1,         // E2M1, rounded to nearest
  kE2M1Random,   // E2M1, rounded stochastically
  kFourOverSix,  // E2M1 with the better of two scales
  kScaleSearch,  // E2M1 with the best of six scales
  // For profiles other than TE, which only have rowwise copies.
  kFp8Other,
  kE2M1Other,
};

template <Coding kCoding, Scaling kScaling, int kBlockLength, bool kShared,
          bool kRotates>
struct Cell {
  static constexpr Coding kCodes = kCoding;
  static constexpr bool kFp8 =
      kCoding == Coding::kFp8 || kCoding == Coding::kFp8Other;
  // Whether codes are rounded stochastically.
  static constexpr bool kDraws = kCoding == Coding::kE2M1Random;
  static constexpr bool kSearches = kCoding == Coding::kScaleSearch;
  static constexpr bool kPicks = kCoding == Coding::kFourOverSix || kSearches;
  static constexpr bool kOther =
      kCoding == Coding::kFp8Other || kCoding == Coding::kE2M1Other;
  // kTensor also stands for kChannel.
  static constexpr Scaling kScales = kScaling;
  static constexpr int kLength = kBlockLength;  // 0: one scale for the whole
                                                // line
  static constexpr bool kSquare = kShared;
  static constexpr bool kRht = kRotates;
  static constexpr bool kMx = kScaling == Scaling::kMx;
  // Whether the columnwise copy is not transposed.
  static constexpr bool kInPlace = kMx && kFp8;
  static constexpr bool kMxFp8 = kMx && kCoding == Coding::kFp8;
  // Whether codes of 16-bit elements are computed two at a time. Cells that
  // rotate do so only for rotated copies. NVFP4 needs a table for each amax.
  static constexpr bool kPairs =
      (kCoding == Coding::kE2M1 || kDraws) && !kSquare && (kMx || kRht);
  static constexpr bool kFits = kPairs && !kMx;
  // Whether scales are a byte each.
  static constexpr bool kByteScales = kLength == 16 || kLength == 32;

  // Returns `p`, in which the values that the cell fixes are constants for the
  // compiler.
  static __device__ __forceinline__ EncodeParams Known(EncodeParams p) {
    if constexpr (kScaling != Scaling::kTensor) p.scaling = kScaling;
    p.block = kLength;
    p.square = kSquare;
    p.numerics.other = kOther;
    if constexpr (!kFp8) p.element = DType::kE2M1x2;
    if constexpr (!kPicks) p.nvfp4.four_over_six = FourOverSix::kOff;
    p.stochastic = kDraws;
    if constexpr (kSearches) p.nvfp4.scale_search = true;
    if constexpr (kScaling == Scaling::kNvfp4) p.scale = DType::kE4M3;
    if constexpr (kMx) p.scale = DType::kE8M0;
    return p;
  }

  static __device__ __forceinline__ LineScale<Scalar> LineOf(
      const EncodeParams& p, float amax, float tensor_scale) {
    return MakeLineScale<Scalar, kOther>(p, amax, tensor_scale);
  }
  static __device__ __forceinline__ BlockScale<Scalar> ScaleOf(
      const EncodeParams& p, const LineScale<Scalar>& line, uint32_t max,
      uint32_t clean) {
    return MakeBlockScale<Scalar, kOther>(p, line, max, clean);
  }
  static __device__ __forceinline__ BlockScale<Scalar> Under(
      const EncodeParams& p, const LineScale<Scalar>& line, uint32_t stored) {
    return UnderScale<Scalar, kOther>(p, line, stored);
  }
  static __device__ __forceinline__ uint32_t Stored(const EncodeParams& p,
                                                    uint32_t stored) {
    return StoredScale<Scalar, kOther>(p, stored);
  }
};

// Whether every line of a copy has its own amax.
__device__ __forceinline__ bool HasAmaxOfLines(const CopyTask& copy) {
  return copy.amax != nullptr && copy.amax_line != 0;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_CELL_CUH_
