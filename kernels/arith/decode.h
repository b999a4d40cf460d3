// Decodes codes of any format to fp32, over a lane type
// (kernels/arith/lanes.h), with a line in each lane.
#ifndef QUANTD_KERNELS_ARITH_DECODE_H_
#define QUANTD_KERNELS_ARITH_DECODE_H_

#include <cstdint>

#include "kernels/arith/codec.h"
#include "kernels/arith/e2m1.h"
#include "kernels/arith/lanes.h"
#include "kernels/arith/nvfp4.h"
#include "kernels/plan/profile/numerics.h"
#include "quantd/format.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// The values that the factors of all blocks of a line depend on. Only NVFP4 has
// any. `amax` is the line's.
template <typename L>
QUANTD_FN Nvfp4Decode<L> MakeLineDecode(Scaling scaling, typename L::F amax,
                                        float range) {
  if (scaling != Scaling::kNvfp4) return {amax, amax};
  return MakeNvfp4Decode<L>(amax, range);
}

// NVFP4's factor under a profile's global scale or divisor.
template <typename L>
QUANTD_FN typename L::F GlobalFactor(FactorRule rule, typename L::F global,
                                     typename L::U stored) {
  const typename L::F scale = DecodeE4M3<L>(stored);
  return rule == FactorRule::kDivided ? scale / global : scale * global;
}

// The factor of a block's codes. `stored` is the stored scale: a code, or the
// bits of an fp32.
template <typename L>
QUANTD_FN typename L::F DecodeFactor(Scaling scaling,
                                     const Nvfp4Decode<L>& line,
                                     typename L::U stored) {
  if (scaling == Scaling::kNvfp4) return Nvfp4Factor<L>(stored, line);
  return scaling == Scaling::kMx ? DecodeE8M0<L>(stored) : L::Float(stored);
}

// The magnitudes of E2M1, listed twice as PickOfEight requires.
inline constexpr float kE2M1Magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6,
                                            0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

// The unscaled magnitudes of 16 codes that are not NaN. Needs several lanes.
template <typename L>
QUANTD_FN void DecodeMagnitudes(DType element, const typename L::U* words,
                                typename L::F* v) {
  using U = typename L::U;
  if (element == DType::kE2M1x2) {
    alignas(64) uint32_t table[16];
    __builtin_memcpy(table, kE2M1Magnitudes, sizeof(table));
    QUANTD_UNROLL
    for (int i = 0; i < 16; ++i) {
      const U code = words[i / 8] >> (4 * (i % 8));
      v[i] = L::Float(L::PickOfEight(table, code & 7u));
    }
    return;
  }
  const bool e4m3 = element == DType::kE4M3;
  const typename L::F bias = L::Broadcast(e4m3 ? 0x1p120f : 0x1p112f);
  QUANTD_UNROLL
  for (int i = 0; i < 16; ++i) {
    const U code = (words[i / 4] >> (8 * (i % 4))) & 0x7Fu;
    v[i] = L::Float(code << (e4m3 ? 20 : 21)) * bias;
  }
}

// The unscaled values of 16 codes, in words in the order of EncodeSixteen.
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

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_DECODE_H_
