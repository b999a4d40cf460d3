// Codes of any format back to fp32, over a lane type (kernels/arith/lanes.h), a
// line in each lane; and how far they are from what they were made of.
#ifndef QUANTD_KERNELS_ARITH_DECODE_H_
#define QUANTD_KERNELS_ARITH_DECODE_H_

#include <cstdint>

#include "kernels/arith/codec.h"
#include "kernels/arith/encode.h"
#include "kernels/arith/lanes.h"
#include "kernels/plan/format.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// What the codes of a block are multiplied with. `stored` is the scale as it
// is stored, `amax` the line's (NVFP4).
//
// Decoding NVFP4 follows what encoding did where the plain formula would not:
// a tiny amax is the one S saturated at, and for a huge one the factor is
// float(scale) / S, since float(scale) * amax would overflow.
template <typename L>
QUANTD_FN typename L::F DecodeFactor(Scaling scaling, float f6,
                                     typename L::F amax, typename L::U stored) {
  using F = typename L::F;
  if (scaling == Scaling::kMx) return DecodeE8M0<L>(stored);
  if (scaling != Scaling::kNvfp4) return L::Float(stored);
  const float flt_max = L::Float32(kFltMaxBits);
  const F smallest = L::Broadcast(f6 / flt_max);
  const F largest = L::Broadcast(flt_max / 448.0f);
  const F zero{};
  const F scale = DecodeE4M3<L>(stored);
  const F used = (amax > zero) & (amax < smallest) ? smallest : amax;
  const F usual = (scale * used) * (1.0f / f6);
  const F huge = scale * (L::Broadcast(1.0f) / Nvfp4EncodeScaleOf<L>(amax, f6));
  return amax > largest ? huge : usual;
}

// DecodeFactor of NVFP4 in two steps, of which this one is for all blocks with
// one amax: a block's factor is (float(scale) * amax) * k.
QUANTD_FN Nvfp4Decode MakeNvfp4Decode(float amax, float f6) {
  const float flt_max = Scalar::Float(kFltMaxBits);
  // Divided while compiling: there are two f6.
  const bool wide = f6 == 2688.0f;
  const float smallest = wide ? 2688.0f / flt_max : 1536.0f / flt_max;
  if (amax > flt_max / 448.0f) {
    return {1.0f / Nvfp4EncodeScaleOf<Scalar>(amax, f6), 1.0f};
  }
  if (amax > 0.0f && amax < smallest) amax = smallest;
  return {amax, wide ? 1.0f / 2688.0f : 1.0f / 1536.0f};
}

// Values of 16 codes, without their scale. `words` as EncodeSixteen made them.
template <typename L>
QUANTD_FN void DecodeSixteen(DType element, const typename L::U* words,
                             typename L::F* v) {
  if (element == DType::kE2M1x2) {
    for (int i = 0; i < 16; ++i) {
      v[i] = DecodeE2M1<L>((words[i / 8] >> (4 * (i % 8))) & 0xFu);
    }
    return;
  }
  const bool e4m3 = element == DType::kE4M3;
  for (int i = 0; i < 16; ++i) {
    const typename L::U code = (words[i / 4] >> (8 * (i % 4))) & 0xFFu;
    v[i] = e4m3 ? DecodeE4M3<L>(code) : DecodeE5M2<L>(code);
  }
}

// Magnitude of y = v * m from which a value would round beyond the largest
// code, as fp32 bits: 7, 464 and 61440.
QUANTD_FN uint32_t ClipBits(DType element) {
  return element == DType::kE2M1x2 ? 0x40E00000u
         : element == DType::kE4M3 ? 0x43E80000u
                                   : 0x47700000u;
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_DECODE_H_
