// Multipliers that replace a profile's divisions, with the same results, for
// all NVFP4 blocks of bf16 values under a stored global scale.
#ifndef QUANTD_KERNELS_ARITH_PROFILE_GLOBAL_MULTIPLIERS_H_
#define QUANTD_KERNELS_ARITH_PROFILE_GLOBAL_MULTIPLIERS_H_

#include "kernels/arith/encode_params.h"
#include "kernels/arith/profile/numerics.h"
#include "kernels/arith/profile/quotient.h"

namespace quantd {
inline namespace QUANTD_ARITH {

struct GlobalMultipliers {
  // Multipliers of elements for block scales from 1 to 2, indexed by the
  // scale's mantissa. For other exponents of the scale they are multiplied by a
  // power of two.
  float of[8] = {};
  float scale = 0;  // multiplier of blocks' maxima, see ScaleMultiplier; 0: not
                    // found
  float global = 0;
  bool usable = false;  // false: elements must be divided one by one
};

// Whether all products with multipliers of g stay away from the limits of
// fp32's range. Under a larger g the smallest quotients are 0 and would get
// other signs.
QUANTD_FN bool HasGlobalMultipliers(const Numerics& n, float g) {
  const float operand = n.global == GlobalRule::kDivisor ? 1.0f / g : g;
  const float most = n.operation == Operation::kTimes ? 0x1p80f : 0x1p4f;
  return operand <= most && operand >= 0x1p-80f;
}

// Whether one multiplication can give a block's scale. Rules that round b / 6
// first hardly ever allow this.
QUANTD_FN bool ScalesByProduct(const Numerics& n) {
  return n.target != ScaleTarget::kGlobalTimesSixth;
}

// The multipliers for g, the result of GlobalScaleOf. L is a lane type that
// makes the search faster.
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
