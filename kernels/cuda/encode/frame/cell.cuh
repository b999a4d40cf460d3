// What a kernel of the frame knows when it is compiled: a cell of the matrix of
// formats and options, with the arithmetic of kernels/arith as it is. The rest
// are numbers that all threads share: the input's type among those of one size,
// the element among FP8's, the dimension of a rotation, rounding, rules.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_CELL_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_CELL_CUH_

#include "kernels/arith/encode.h"
#include "kernels/cuda/encode/generic/store.cuh"

namespace quantd::cuda {

// How values become codes.
enum class Coding {
  kFp8,          // E4M3 or E5M2, of any library
  kE2M1,         // to nearest or stochastically
  kFourOverSix,  // E2M1 under the better of two scales
  kE2M1Other,    // other libraries' E2M1
};

template <Coding kCoding, Scaling kScaling, int kBlockLength, bool kShared,
          bool kRotates>
struct Cell {
  static constexpr Coding kCodes = kCoding;
  static constexpr bool kFp8 = kCoding == Coding::kFp8;
  static constexpr bool kPicks = kCoding == Coding::kFourOverSix;
  static constexpr bool kOther = kCoding == Coding::kE2M1Other;
  // kTensor stands for kChannel, too.
  static constexpr Scaling kScales = kScaling;
  static constexpr int kLength = kBlockLength;  // 0: a scale for all of a line
  static constexpr bool kSquare = kShared;
  static constexpr bool kRht = kRotates;
  static constexpr bool kMx = kScaling == Scaling::kMx;
  // Scales are a byte each.
  static constexpr bool kByteScales = kLength == 16 || kLength == 32;

  // The parameters with what is known put in, for the compiler to see.
  static __device__ __forceinline__ EncodeParams Known(EncodeParams p) {
    if constexpr (kScaling != Scaling::kTensor) p.scaling = kScaling;
    p.block = kLength;
    p.square = kSquare;
    if constexpr (!kFp8) {
      p.element = DType::kE2M1x2;
      p.numerics.other = kOther;
    }
    if constexpr (!kPicks) p.four_over_six = FourOverSix::kOff;
    if constexpr (kPicks || kOther) p.stochastic = false;
    if constexpr (kScaling == Scaling::kNvfp4) p.scale = DType::kE4M3;
    if constexpr (kMx) p.scale = DType::kE8M0;
    return p;
  }

  // Calls `f` with whether the arithmetic is another library's, as a constant.
  template <typename F>
  static __device__ __forceinline__ auto ForNumerics(const EncodeParams& p,
                                                     const F& f) {
    if constexpr (kFp8) {
      if (p.numerics.other) return f(std::true_type{});
      return f(std::false_type{});
    } else {
      return f(std::bool_constant<kOther>{});
    }
  }

  static __device__ __forceinline__ LineScale<Scalar> LineOf(
      const EncodeParams& p, float amax, float tensor_scale) {
    return ForNumerics(p, [&](auto other) {
      return MakeLineScale<Scalar, decltype(other)::value>(p, amax,
                                                           tensor_scale);
    });
  }
  static __device__ __forceinline__ BlockScale<Scalar> ScaleOf(
      const EncodeParams& p, const LineScale<Scalar>& line, uint32_t max,
      uint32_t clean) {
    return ForNumerics(p, [&](auto other) {
      return MakeBlockScale<Scalar, decltype(other)::value>(p, line, max,
                                                            clean);
    });
  }
  static __device__ __forceinline__ BlockScale<Scalar> Under(
      const EncodeParams& p, const LineScale<Scalar>& line, uint32_t stored) {
    return ForNumerics(p, [&](auto other) {
      return UnderScale<Scalar, decltype(other)::value>(p, line, stored);
    });
  }
  static __device__ __forceinline__ uint32_t Stored(const EncodeParams& p,
                                                    uint32_t stored) {
    return ForNumerics(p, [&](auto other) {
      return StoredScale<Scalar, decltype(other)::value>(p, stored);
    });
  }
};

// Whether every line of a copy has an amax of its own.
__device__ __forceinline__ bool HasAmaxOfLines(const CopyTask& copy) {
  return copy.amax != nullptr && copy.amax_line != 0;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_CELL_CUH_
