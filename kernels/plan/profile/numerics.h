// What a format leaves to the library that writes it, as choices: which global
// scale, in which order the operations, how ties and signs. Pure data; kernels
// read it as it is, so that none of them is one library's. The defaults are
// TransformerEngine's. kernels/plan/profile/profile.h has a row of choices for
// every library and format; kernels/plan/FORMATS.md is the prose.
#ifndef QUANTD_KERNELS_PLAN_PROFILE_NUMERICS_H_
#define QUANTD_KERNELS_PLAN_PROFILE_NUMERICS_H_

#include <cstdint>

namespace quantd {

// What NVFP4's amax A becomes for the blocks under it: g. Of those that are
// stored, g is 1 where it would be 0 or not finite. T is the input's type.
enum class GlobalRule : uint8_t {
  kEncodeScale,  // S = 2688 / A, at most FLT_MAX; what is stored is 1 / S
  kQuotient,     // A / 2688
  kProduct,      // A * fl32(1 / 2688)
  kDivisor,      // T(T(1 / max(A, the least normal T)) * 2688)
};

// What is stored of it, beside the amax.
enum class GlobalStored : uint8_t { kNothing, kMultiplier, kDivisor };

// What the E4M3 scale of an NVFP4 block with the largest magnitude b is rounded
// from.
enum class ScaleTarget : uint8_t {
  kSixthOfEncodeScale,  // b * (S * fl32(1 / 6))
  kOverSixGlobals,      // b / (6 * g)
  kGlobalTimesSixth,    // g * T(b / 6)
  kSixthOverGlobal,     // (b / 6) / g
  kProductOverGlobal,   // (b * fl32(1 / 6)) / g
};

// How FP8's scale is made of an amax.
enum class Fp8Rule : uint8_t {
  kEncodeScale,  // s = element_max / amax; what is stored is 1 / s
  kQuotient,     // amax / element_max, stored as it is
  kProduct,      // amax * fl32(1 / element_max), likewise
};

// How an MX block's exponent is made of its largest magnitude b.
enum class MxRule : uint8_t {
  kOption,  // as QuantizeOptions::scale_rule says
  kLog2,    // ceil(fl32(log2(b / element_max)))
  // floor(log2 b) - emax, of T's bits of b with an eighth of an octave's
  // mantissa, 1/4, added
  kBumped,
};

// What an element becomes before it is rounded to a code, with what its block
// or tensor has for it. Zeros stay as they are.
enum class Operation : uint8_t {
  kTimes,       // times what makes it a code's size
  kOver,        // over the scale in full
  kOverOrZero,  // the same, a number's +0 where that scale is 0
};

// Which elements get the sign bit of E2M1, by what was rounded, y.
enum class SignRule : uint8_t {
  kSignBit,      // those with a sign bit, -0 too
  kNegative,     // y < 0
  kNotPositive,  // y <= 0, zeros too
};

// What codes are multiplied with when they are decoded.
enum class FactorRule : uint8_t {
  kAmax,     // NVFP4: of the scale and the amax; else the scale
  kProduct,  // NVFP4: scale * g
  kDivided,  // NVFP4: scale / g
};

struct Numerics {
  // Whether any of the following is not as it is written here.
  bool other = false;

  // NVFP4.
  GlobalRule global = GlobalRule::kEncodeScale;
  GlobalStored stored = GlobalStored::kNothing;
  bool global_in_type = false;  // g is rounded to T
  ScaleTarget target = ScaleTarget::kSixthOfEncodeScale;
  uint8_t least_scale = 0;  // a smaller code counts as this one
  uint8_t zero_scale = 0;   // of a block of zeros, or whose code is 0

  // FP8.
  Fp8Rule fp8 = Fp8Rule::kEncodeScale;
  bool scale_in_type = false;     // the scale is rounded to T, and stored as T
  bool operand_in_type = false;   // elements are divided by it rounded to T
  bool epsilon_for_zero = false;  // for an amax of 0: T's epsilon, else 1
  float least_amax = 0;           // a smaller amax counts as this one
  bool least_normal = false;      // so does, but for 0, T's least normal

  // MX.
  MxRule mx = MxRule::kOption;
  // The exponent of what the elements of a block with the code 0 are multiplied
  // with.
  uint8_t exponent_at_zero = 127;

  // Elements.
  Operation operation = Operation::kTimes;
  bool in_type = false;  // what was multiplied or divided is rounded to T
  SignRule sign = SignRule::kSignBit;
  bool ties_to_zero = false;
  bool high_first = false;  // the even element is in the high nibble

  // Decoding.
  FactorRule factor = FactorRule::kAmax;
  bool factor_in_type = false;  // rounded to the output's type, and g before

  bool operator==(const Numerics&) const = default;
};

// Whether codes and scales are TransformerEngine's: what is stored beside them,
// and how they are decoded, may be others.
constexpr bool EncodesAsTe(Numerics n) {
  n.other = false;
  n.stored = {};
  n.factor = {};
  n.factor_in_type = false;
  return n == Numerics{};
}

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_PROFILE_NUMERICS_H_
