// Encodes NVFP4 in groups of W blocks, with a block in each lane, by the
// arithmetic of TransformerEngine or of another profile. A group is processed
// in two steps, so that two groups can overlap. Included only by
// nvfp4_quantize.cc.
#ifndef QUANTD_KERNELS_CPU_ISA_NVFP4_QUANTIZE_H_
#define QUANTD_KERNELS_CPU_ISA_NVFP4_QUANTIZE_H_

#include "kernels/arith/encode.h"
#include "kernels/arith/profile/global_multipliers.h"
#include "kernels/cpu/isa/nvfp4.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

using cpu::Maxima;

using L = Lane;
using F = L::F;
using U = L::U;

// GlobalMultipliers as a table for lanes.
struct Multipliers {
  alignas(64) uint32_t of[16] = {};  // the eight multipliers, twice
  float scale = 0;
  bool usable = false;
};

Multipliers MultipliersOf(const EncodeParams& p, float global) {
  const GlobalMultipliers all = MakeGlobalMultipliers<L>(p, global);
  Multipliers made;
  for (int i = 0; i < 16; ++i) made.of[i] = Scalar::Bits(all.of[i % 8]);
  made.scale = all.scale;
  made.usable = all.usable;
  return made;
}

// A copy, with values that all its blocks share.
struct Copy : CopyTask {
  Nvfp4Encode amax_scale = {};
  LineScale<L> line = {};  // amax_scale in every lane
  float global = 1;        // under a profile: GlobalScaleOf
  Multipliers multipliers = {};
};

Copy CopyOf(const EncodeParams& params, const CopyTask& task) {
  Copy copy = {task};
  if (copy.data == nullptr) return copy;
  copy.amax_scale = MakeNvfp4Encode(*copy.amax, kNvfp4Range448);
  copy.line = MakeLineScale<L>(params, L::Broadcast(*copy.amax), F{});
  if (WorksWithGlobal<true>(params.numerics)) {
    copy.global = GlobalScaleOf<Scalar>(params, *copy.amax);
    if (params.input == DType::kBF16) {
      copy.multipliers = MultipliersOf(params, copy.global);
    }
  }
  return copy;
}

// Encodes W blocks of any values, which `load` loads. Not inlined, so that the
// common path keeps its registers. Calls `load` again to record NaN and Inf in
// the input before its rotation.
template <typename Load>
__attribute__((noinline)) Nvfp4Block<Lane> EncodeSpecial(const EncodeParams& p,
                                                         Load load,
                                                         const Copy& copy,
                                                         Maxima* seen) {
  F v[16];
  load(v);
  if (L::Any(MaxMagnitude<L>(v) >= kInfBits)) Note(v, seen);
  const U max = copy.signs ? RotateToBf16<L>(v, Signs(copy.signs).lanes)
                           : MaxMagnitude<L>(v);
  return EncodeNvfp4<L>(v, max, copy.amax_scale, p.propagate);
}

// Encodes special blocks (see Group) with stochastic rounding.
template <typename Load>
__attribute__((noinline)) Nvfp4Block<L> EncodeSpecialByBytes(
    const EncodeParams& p, Load load, const Copy& copy,
    const RandomBytes<L>& random, Maxima* seen) {
  F v[16];
  load(v);
  if (L::Any(MaxMagnitude<L>(v) >= kInfBits)) Note(v, seen);
  if (copy.signs) RotateToBf16<L>(v, Signs(copy.signs).lanes);
  U max, clean;
  FindMaxima<L>(v, 16, &max, &clean);
  U scale = Nvfp4Scale<L>(clean, copy.amax_scale.s_inv6);
  const U nan = U{} + kNvfp4NanScale;
  if (p.propagate) scale = max > kInfBits ? nan : scale;
  U words[4];
  EncodeSixteen<L>(p, v, Nvfp4Multiplier<L>(scale, copy.amax_scale.s_dec),
                   &random, words);
  return {words[0], words[1], scale};
}

// A group of W blocks between the two steps of its processing.
struct Group {
  F v[16];  // rotated, not yet rounded
  U scale;
  F m;
  bool special;  // some value is NaN or Inf, or must be clamped
};

// The arithmetic that makes codes of elements, as a template argument. All
// other details of a profile are tested once for each group.
enum class Way {
  kTe,
  kTeStochastic,
  kTeFourOverSix,
  kTimes,
  kOver,
  kOverNegative,
  kMultiplied,  // by Multipliers
  kMultipliedNegative,
  kMultipliedHighFirst,
};

constexpr bool IsMultiplied(Way way) {
  return way == Way::kMultiplied || way == Way::kMultipliedNegative ||
         way == Way::kMultipliedHighFirst;
}

constexpr bool IsTe(Way way) {
  return way == Way::kTe || way == Way::kTeStochastic ||
         way == Way::kTeFourOverSix;
}

Way WayOf(const EncodeParams& p, const Copy& copy) {
  const Numerics& n = p.numerics;
  if (!WorksWithGlobal<true>(n)) {
    return p.stochastic     ? Way::kTeStochastic
           : TriesScales(p) ? Way::kTeFourOverSix
                            : Way::kTe;
  }
  const bool negative = n.sign == SignRule::kNegative;
  if (copy.multipliers.usable && !(negative && n.high_first)) {
    return negative       ? Way::kMultipliedNegative
           : n.high_first ? Way::kMultipliedHighFirst
                          : Way::kMultiplied;
  }
  if (n.operation == Operation::kTimes) return Way::kTimes;
  return negative ? Way::kOverNegative : Way::kOver;
}

LineScale<L> LineOf(const Copy& copy) {
  const F g = L::Broadcast(copy.global);
  return {g, g, g, g};
}

// Like EncodeSpecial, for a profile.
template <typename Load>
__attribute__((noinline)) Nvfp4Block<L> EncodeSpecialBy(const EncodeParams& p,
                                                        Load load,
                                                        const Copy& copy,
                                                        Maxima* seen) {
  F v[16];
  load(v);
  U max, clean;
  FindMaxima<L>(v, 16, &max, &clean);
  if (L::Any(max >= kInfBits)) Note(v, seen);
  const BlockScale<L> scale =
      MakeBlockScale<L, true>(p, LineOf(copy), max, clean);
  U words[4];
  EncodeSixteen<L, true>(p, v, scale.m, nullptr, words);
  return {words[0], words[1], scale.stored};
}

// Like Prepare, for a profile. `m` is the multiplier or divisor of elements.
template <Way kWay, typename Load>
QUANTD_FN void PrepareBy(const EncodeParams& p, Load load, const Copy& copy,
                         Group* group) {
  load(group->v);
  const U max = MaxMagnitude<L>(group->v);
  const F g = L::Broadcast(copy.global);
  if constexpr (IsMultiplied(kWay)) {
    const F wanted = copy.multipliers.scale != 0.0f
                         ? L::Float(max) * copy.multipliers.scale
                     : p.numerics.target == ScaleTarget::kGlobalTimesSixth
                         ? g * SixthInBf16<L>(L::Float(max))
                         : Nvfp4TargetUnder<L>(p, g, max);
    group->scale = Nvfp4ScaleOfTarget<L>(p.numerics, wanted);
    const U m = L::PickOfEight(copy.multipliers.of, group->scale & 7u);
    group->m = L::Float(m + ((7u - (group->scale >> 3)) << 23));
    // Some libraries write no signs in a block of zeros.
    const U unsigned_zeros =
        U{} + (p.numerics.operation == Operation::kOverOrZero ? ~0u : 0u);
    const U none = reinterpret_cast<U>(max == 0u);
    group->special =
        L::Any((reinterpret_cast<U>(Nvfp4MayReach7<L>(wanted)) & ~none) |
               (unsigned_zeros & none));
  } else {
    group->scale = Nvfp4ScaleUnder<L>(p, g, max);
    group->m = Nvfp4OperandUnder<L>(p.numerics, g, group->scale);
    const U operand = L::Bits(group->m);
    group->special =
        L::Any((max >= kInfBits) | (operand == 0u) | (operand >= kInfBits));
  }
  asm volatile("" : "+m"(*group));
}

template <Way kWay, typename Load>
QUANTD_FN Nvfp4Block<L> EncodeBy(const EncodeParams& p, Load load,
                                 const Copy& copy, Group* group, Maxima* seen) {
  if constexpr (IsMultiplied(kWay)) {
    if (__builtin_expect(!group->special, true)) {
      constexpr E2M1Input kInput = kWay == Way::kMultipliedNegative
                                       ? E2M1Input::kBf16Below7
                                       : E2M1Input::kBelow7;
      constexpr E2M1Order kOrder = kWay == Way::kMultipliedHighFirst
                                       ? E2M1Order::kHighFirst
                                       : E2M1Order::kLowFirst;
      return EncodeNvfp4Under<L, kInput, kOrder>(group->v, group->scale,
                                                 group->m);
    }
  }
  Nvfp4Block<L> out;
  if (IsMultiplied(kWay) || __builtin_expect(group->special, false)) {
    out = EncodeSpecialBy(p, load, copy, seen);
  } else {
    constexpr bool kTimes = kWay == Way::kTimes;
    constexpr bool kNegative = kWay == Way::kOverNegative;
    out = {PackE2M1By<L, kTimes, kNegative>(group->v, group->m),
           PackE2M1By<L, kTimes, kNegative>(group->v + 8, group->m),
           group->scale};
  }
  if (p.numerics.high_first) {
    out.low = SwapNibbles<L>(out.low);
    out.high = SwapNibbles<L>(out.high);
  }
  return out;
}

// Encodes special blocks with 4over6 or scale search.
template <typename Load>
__attribute__((noinline)) Nvfp4Block<L> EncodeSpecialFourOverSix(
    const EncodeParams& p, Load load, const Copy& copy, Maxima* seen) {
  F v[16];
  load(v);
  U max, clean;
  FindMaxima<L>(v, 16, &max, &clean);
  if (L::Any(max >= kInfBits)) Note(v, seen);
  const BlockScale<L> scale = BestBlockScale<L>(p, copy.line, v, max, clean);
  U words[4];
  EncodeSixteen<L>(p, v, scale.m, nullptr, words);
  return {words[0], words[1], scale.stored};
}

// Like Prepare and Encode, for 4over6 and scale search.
template <typename Load>
QUANTD_FN void PrepareFourOverSix(const EncodeParams& p, Load load,
                                  const Copy& copy, Group* group) {
  load(group->v);
  const U max = MaxMagnitude<L>(group->v);
  const BlockScale<L> scale =
      BestBlockScale<L>(p, copy.line, group->v, max, max);
  group->scale = scale.stored;
  group->m = scale.m;
  group->special = L::Any((max >= kInfBits) | (L::Bits(scale.m) == 0u));
  asm volatile("" : "+m"(*group));
}
template <typename Load>
QUANTD_FN Nvfp4Block<L> EncodeFourOverSix(const EncodeParams& p, Load load,
                                          const Copy& copy, Group* group,
                                          Maxima* seen) {
  if (__builtin_expect(group->special, false)) {
    return EncodeSpecialFourOverSix(p, load, copy, seen);
  }
  return EncodeNvfp4Under<L, E2M1Input::kAny>(group->v, group->scale, group->m);
}

// First step: values, scale and multiplier. Computing a block's multiplier from
// its maximum is a long dependency chain. The second step of the previous group
// hides its latency.
template <bool kRht, bool kExact, Way kWay, typename Load>
QUANTD_FN void Prepare(Load load, const Copy& copy, const Signs& signs,
                       Group* group) {
  load(group->v);
  if constexpr (kRht) RotateForward<L, kExact>(group->v, signs.lanes);
  U max = MaxMagnitude<L>(group->v);
  if constexpr (kRht) max = L::Bits(RoundToBf16<L>(L::Float(max)));
  // Rotated values are finite only if all inputs are.
  const F wanted = L::Float(max) * copy.amax_scale.s_inv6;
  group->scale = Nvfp4Scale<L>(max, copy.amax_scale.s_inv6);
  group->m = Nvfp4Multiplier<L>(group->scale, copy.amax_scale.s_dec);
  // Stochastic rounding always clamps.
  group->special = kWay == Way::kTeStochastic
                       ? L::Any((max >= kInfBits) | (L::Bits(group->m) == 0u))
                       : L::Any(Nvfp4MayReach7<L>(wanted) & (max != 0u));
  // Forces the group into memory. In registers it would displace the other
  // group.
  asm volatile("" : "+m"(*group));
}

// Second step: the codes. `load` must be the same as in the first step.
template <bool kRht, typename Load>
QUANTD_FN Nvfp4Block<L> Encode(const EncodeParams& p, Load load,
                               const Copy& copy, Group* group, Maxima* seen) {
  if (__builtin_expect(group->special, false)) {
    return EncodeSpecial(p, load, copy, seen);
  }
  constexpr E2M1Input kInput =
      kRht ? E2M1Input::kUnroundedBelow7 : E2M1Input::kBelow7;
  return EncodeNvfp4Under<L, kInput>(group->v, group->scale, group->m);
}

// Encodes blocks with stochastic rounding. Lane i uses the random bytes of
// `counter` + i * kStep.
template <bool kRht, int kStep, typename Load>
QUANTD_FN Nvfp4Block<L> EncodeByBytes(const EncodeParams& p, Load load,
                                      const Copy& copy, uint64_t counter,
                                      uint64_t subsequence, Group* group,
                                      Maxima* seen) {
  RandomBytes<L> random;
  random.shift = 0;
  Philox<L>(counter, kStep, subsequence, p.seed, random.words);
  // Forces the bytes into memory, because registers are needed for the codes.
  asm volatile("" : "+m"(random));
  if (__builtin_expect(group->special, false)) {
    return EncodeSpecialByBytes(p, load, copy, random, seen);
  }
  return {PackE2M1Stochastic<L, kRht>(group->v, group->m, random.words),
          PackE2M1Stochastic<L, kRht>(group->v + 8, group->m, random.words + 2),
          group->scale};
}

}  // namespace
}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_CPU_ISA_NVFP4_QUANTIZE_H_
