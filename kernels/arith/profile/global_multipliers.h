// What a global scale that is stored decides for every NVFP4 block of bf16
// under it: multiplications that give what a profile's divisions do.
#ifndef QUANTD_KERNELS_ARITH_PROFILE_GLOBAL_MULTIPLIERS_H_
#define QUANTD_KERNELS_ARITH_PROFILE_GLOBAL_MULTIPLIERS_H_

#include "kernels/arith/encode_params.h"
#include "kernels/arith/profile/numerics.h"
#include "kernels/arith/profile/quotient.h"

namespace quantd {
inline namespace QUANTD_ARITH {

struct GlobalMultipliers {
  // Of elements, by the mantissa of their block's scale, for scales from 1 to
  // 2. Scales that differ in the exponent alone have multipliers that differ by
  // a power of two.
  float of[8] = {};
  float scale = 0;  // of blocks' maxima: see ScaleMultiplier; 0: there is none
  float global = 0;
  bool usable = false;  // else elements are divided one by one
};

// Whether no product with what g decides comes near the ends of fp32. Under a
// larger g the smallest quotients are 0, whose signs differ.
QUANTD_FN bool HasGlobalMultipliers(const Numerics& n, float g) {
  const float operand = n.global == GlobalRule::kDivisor ? 1.0f / g : g;
  const float most = n.operation == Operation::kTimes ? 0x1p80f : 0x1p4f;
  return operand <= most && operand >= 0x1p-80f;
}

// Whether a block's scale is found by one multiplication. Sixths that are
// rounded on the way hardly ever have one.
QUANTD_FN bool ScalesByProduct(const Numerics& n) {
  return n.target != ScaleTarget::kGlobalTimesSixth;
}

// Of g, which GlobalScaleOf gives. L: lanes that make it faster.
template <typename L>
inline GlobalMultipliers MakeGlobalMultipliers(const EncodeParams& p, float g) {
  const Numerics& n = p.numerics;
  GlobalMultipliers made;
  made.global = g;
  if (!HasGlobalMultipliers(n, g)) return made;
  for (uint32_t mantissa = 0; mantissa < 8; ++mantissa) {
    const float d = Nvfp4OperandUnder<Scalar>(n, g, 7u << 3 | mantissa);
    const float m =
        n.operation == Operation::kTimes ? d : QuotientMultiplier(d);
    if (m == 0.0f) return made;
    made.of[mantissa] = m;
  }
  if (ScalesByProduct(n)) made.scale = ScaleMultiplier<L>(p, g);
  made.usable = true;
  return made;
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_PROFILE_GLOBAL_MULTIPLIERS_H_
