// Template arguments and grids for the launchers of decoding kernels.
#ifndef QUANTD_KERNELS_CUDA_DECODE_DECODE_CUH_
#define QUANTD_KERNELS_CUDA_DECODE_DECODE_CUH_

#include <cstdint>

#include "kernels/arith/decode.h"
#include "kernels/cuda/decode/codes.cuh"
#include "kernels/cuda/decode/places.cuh"

namespace quantd::cuda {

// log2 of the number of units that a CTA takes side by side, if a row has
// `units` of them. This is `most`, or a smaller number down to `least` if a
// row's CTAs then cover at least an eighth fewer units.
inline int TileShift(int64_t units, int least, int most) {
  const auto covered = [&](int shift) {
    return (units + (int64_t{1} << shift) - 1) >> shift << shift;
  };
  int best = most;
  for (int shift = most - 1; shift >= least; --shift) {
    if (covered(shift) * 8 <= covered(best) * 7) best = shift;
  }
  return best;
}

// A grid of `across` CTAs side by side and `down` one below the other, or as
// many as a grid may have.
inline dim3 GridOf(int64_t across, int64_t down) {
  return dim3(static_cast<unsigned>(across),
              static_cast<unsigned>(down < 65535 ? down : 65535));
}

template <DType D, DType E, Scaling S>
struct DecodeTypes {
  static constexpr DType kOutput = D;
  static constexpr DType kElement = E;
  static constexpr Scaling kScaling = S;
};

// Calls `launch` with the DecodeTypes of a format.
template <DType D, typename F>
cudaError_t ForElements(const DequantizeParams& p, const F& launch) {
  const auto fp8 = [&]<Scaling S>() {
    return p.element == DType::kE4M3
               ? launch(DecodeTypes<D, DType::kE4M3, S>())
               : launch(DecodeTypes<D, DType::kE5M2, S>());
  };
  switch (p.scaling) {
    case Scaling::kNvfp4:
      return launch(DecodeTypes<D, DType::kE2M1x2, Scaling::kNvfp4>());
    case Scaling::kMx:
      if (p.element == DType::kE2M1x2) {
        return launch(DecodeTypes<D, DType::kE2M1x2, Scaling::kMx>());
      }
      return fp8.template operator()<Scaling::kMx>();
    case Scaling::kTensor:
      return fp8.template operator()<Scaling::kTensor>();
    case Scaling::kBlock:
    case Scaling::kChannel:  // All blocks have the line's scale.
      return fp8.template operator()<Scaling::kBlock>();
  }
  return cudaErrorInvalidValue;
}
template <typename F>
cudaError_t ForDecoding(const DequantizeParams& p, const F& launch) {
  switch (p.output) {
    case DType::kF32:
      return ForElements<DType::kF32>(p, launch);
    case DType::kF16:
      return ForElements<DType::kF16>(p, launch);
    case DType::kBF16:
      return ForElements<DType::kBF16>(p, launch);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_DECODE_DECODE_CUH_
