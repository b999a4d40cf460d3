// The details of the arithmetic that differ between libraries for the same
// format: the global scale, the order of operations, ties and signs. Pure data
// that kernels read, so that no kernel is for one library only. The defaults
// are TransformerEngine's. The table in kernels/plan/profile/profile.cc has the
// details of every library and format; kernels/plan/FORMATS.md explains them.
#ifndef QUANTD_KERNELS_PLAN_PROFILE_NUMERICS_H_
#define QUANTD_KERNELS_PLAN_PROFILE_NUMERICS_H_

#include <cstdint>

namespace quantd {

// The rule for the global scale g of NVFP4, given the amax A. Libraries that
// store g write 1 where g would be 0 or not finite. T is the input's type.
enum class GlobalRule : uint8_t {
  kEncodeScale,  // S = 2688 / A, at most FLT_MAX; 1 / S is stored
  kQuotient,     // A / 2688
  kProduct,      // A * fl32(1 / 2688)
  kDivisor,      // T(T(1 / max(A, the least normal T)) * 2688)
};

// The stored form of g.
enum class GlobalStored : uint8_t { kNothing, kMultiplier, kDivisor };

// The value that is rounded to the E4M3 scale of an NVFP4 block whose largest
// magnitude is b.
enum class ScaleTarget : uint8_t {
  kSixthOfEncodeScale,  // b * (S * fl32(1 / 6))
  kOverSixGlobals,      // b / (6 * g)
  kGlobalTimesSixth,    // g * T(b / 6)
  kSixthOverGlobal,     // (b / 6) / g
  kProductOverGlobal,   // (b * fl32(1 / 6)) / g
};

// The rule for the scale of an FP8 tensor, given its amax.
enum class Fp8Rule : uint8_t {
  kEncodeScale,  // s = element_max / amax; 1 / s is stored
  kQuotient,     // amax / element_max, stored directly
  kProduct,      // amax * fl32(1 / element_max), stored directly
};

// The rule for the exponent of an MX block whose largest magnitude is b.
enum class MxRule : uint8_t {
  kOption,  // by QuantizeOptions::scale_rule
  kLog2,    // ceil(fl32(log2(b / element_max)))
  // floor(log2 b') - emax, where b' is b, as bits of T, with a quarter added to
  // its mantissa
  kBumped,
};

// The operation on an element, with the multiplier or scale of its block or
// tensor, before it is rounded to a code. Zeros are unchanged.
enum class Operation : uint8_t {
  kTimes,       // multiplied by the multiplier of its block or tensor
  kOver,        // divided by the scale, including the global scale
  kOverOrZero,  // as kOver, but a number becomes +0 if the scale is 0
};

// The condition on the rounded value y under which an E2M1 code has its sign
// bit set.
enum class SignRule : uint8_t {
  kSignBit,      // y has its sign bit set, also for -0
  kNegative,     // y < 0
  kNotPositive,  // y <= 0, also for zeros
};

// The factor that codes are multiplied by when they are decoded.
enum class FactorRule : uint8_t {
  kAmax,     // NVFP4: from the scale and the amax; other formats: the scale
  kProduct,  // NVFP4: scale * g
  kDivided,  // NVFP4: scale / g
};

struct Numerics {
  // Whether any of the following differs from its default.
  bool other = false;

  // NVFP4.
  GlobalRule global = GlobalRule::kEncodeScale;
  GlobalStored stored = GlobalStored::kNothing;
  bool global_in_type = false;  // g is rounded to T
  ScaleTarget target = ScaleTarget::kSixthOfEncodeScale;
  uint8_t least_scale = 0;  // replaces smaller scale codes
  uint8_t zero_scale = 0;   // replaces a scale that is 0 or rounds to 0

  // FP8.
  Fp8Rule fp8 = Fp8Rule::kEncodeScale;
  bool scale_in_type = false;     // the scale is rounded to T, and stored as T
  bool operand_in_type = false;   // elements are divided by the scale rounded
                                  // to T
  bool epsilon_for_zero = false;  // T's epsilon, not 1, replaces a scale of 0
  float least_amax = 0;           // replaces a smaller amax
  bool least_normal = false;      // replaces a smaller amax, except 0, by the
                                  // least normal number of T

  // MX.
  MxRule mx = MxRule::kOption;
  // The exponent of the multiplier for a block whose scale code is 0.
  uint8_t exponent_at_zero = 127;

  // Elements.
  Operation operation = Operation::kTimes;
  bool in_type = false;  // the product or quotient is rounded to T
  SignRule sign = SignRule::kSignBit;
  bool ties_to_zero = false;
  bool high_first = false;  // the even element is in the high nibble

  // Decoding.
  FactorRule factor = FactorRule::kAmax;
  bool factor_in_type = false;  // g, and then the factor, are rounded to the
                                // output's type

  bool operator==(const Numerics&) const = default;
};

// Whether codes and scales have TransformerEngine's bytes. Stored global scales
// and decoding may differ.
constexpr bool EncodesAsTe(Numerics n) {
  n.other = false;
  n.stored = {};
  n.factor = {};
  n.factor_in_type = false;
  return n == Numerics{};
}

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_PROFILE_NUMERICS_H_
