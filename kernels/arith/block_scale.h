// Block scales of every format, over a lane type (kernels/arith/lanes.h), with
// a line in each lane. Computes the stored scale and the multiplier of the
// elements from a block's maxima.
#ifndef QUANTD_KERNELS_ARITH_BLOCK_SCALE_H_
#define QUANTD_KERNELS_ARITH_BLOCK_SCALE_H_

#include <cstdint>

#include "kernels/arith/codec.h"
#include "kernels/arith/encode_params.h"
#include "kernels/arith/lanes.h"
#include "kernels/arith/nvfp4.h"
#include "kernels/arith/profile/numerics.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// Values that all blocks of a line share.
template <typename L>
struct LineScale {
  typename L::F amax;   // NVFP4
  typename L::F s;      // NVFP4: the encode scale S, or g
  typename L::F s_dec;  // NVFP4: 1 / S
  typename L::F scale;  // kTensor, kChannel
};

// Whether every block has its own scale. If not, a line has one scale.
QUANTD_FN bool HasBlockScales(Scaling scaling) {
  return scaling != Scaling::kTensor && scaling != Scaling::kChannel;
}

// Whether NVFP4's blocks are scaled by the global scale g, not by the encode
// scale S.
template <bool kOther>
QUANTD_FN bool WorksWithGlobal(const Numerics& n) {
  return kOther && n.global != GlobalRule::kEncodeScale;
}

template <typename L>
QUANTD_FN typename L::F Fp8Scale(const EncodeParams& p, typename L::F amax);

// kOther, here and below, is Numerics::other as a constant, so that code tuned
// for TransformerEngine's arithmetic contains no code of other profiles.
template <typename L, bool kOther = false>
QUANTD_FN LineScale<L> MakeLineScale(const EncodeParams& p, typename L::F amax,
                                     typename L::F tensor_scale) {
  LineScale<L> line = {amax, amax, amax, tensor_scale};
  if (p.scaling == Scaling::kNvfp4) {
    line.s = WorksWithGlobal<kOther>(p.numerics)
                 ? GlobalScaleOf<L>(p, amax)
                 : Nvfp4EncodeScale<L>(amax, p.range);
    line.s_dec = L::Broadcast(1.0f) / line.s;
  }
  if (p.scaling == Scaling::kChannel) {
    line.scale = kOther ? Fp8ScaleOf<L>(p, amax) : Fp8Scale<L>(p, amax);
  }
  return line;
}

// The FP8 scale for the amax of a tensor, a line or a block. StoredScale
// converts it to the stored value.
template <typename L>
QUANTD_FN typename L::F Fp8Scale(const EncodeParams& p, typename L::F amax) {
  using F = typename L::F;
  using U = typename L::U;
  const F epsilon = L::Broadcast(p.epsilon);
  const F limit = L::Broadcast(p.scale_limit);
  const F one = L::Broadcast(1.0f);
  amax = amax < epsilon ? epsilon : amax;
  F scale = L::Broadcast(p.element_max) / amax;
  scale = L::Bits(scale) == kInfBits ? limit : scale;
  const U magnitude = L::Bits(amax) & kAbsMask;
  scale = (magnitude == 0u) | (magnitude >= kInfBits) ? one : scale;
  const U mask = U{} + (p.power_of_two ? 0xFF800000u : 0xFFFFFFFFu);
  return L::Float(L::Bits(scale) & mask);
}

// The E8M0 scale of an MX block whose largest magnitude is `amax` (fp32 bits,
// no NaN).
template <typename L>
QUANTD_FN typename L::U MxScale(const EncodeParams& p, typename L::U amax) {
  using U = typename L::U;
  const U zero{};
  if (p.rule == ScaleRule::kUp) {
    const U v = L::Bits(L::Float(amax) * p.inverse_max);
    const U exponent = v >> 23;
    const U fraction = v & 0x7FFFFFu;
    // Rounded up to the next power of two; 2^-127 is the smallest.
    const auto least = (exponent == 0u) & (fraction <= 0x400000u);
    const auto stay = (fraction == 0u) | (exponent == 254u) | least;
    const U up = stay ? exponent : exponent + 1u;
    return L::Min(up, zero + 0xFEu);
  }
  U exponent = amax >> 23;
  if (p.rule == ScaleRule::kCeil) {
    exponent = (amax & 0x7FFFFFu) != 0u ? exponent + 1u : exponent;
  } else if (p.rule == ScaleRule::kEven) {
    exponent = (amax + (1u << (22 - p.mantissa))) >> 23;
  }
  const U emax = zero + static_cast<uint32_t>(p.emax);
  const U shared = L::Max(exponent, emax) - emax;
  return amax == kInfBits ? zero + 0xFEu : shared;
}

// The multiplier of the elements under an E8M0 scale: 2^(127 - code), NaN for
// 0xFF.
template <typename L>
QUANTD_FN typename L::F MxMultiplier(typename L::U code) {
  using U = typename L::U;
  const U zero{};
  U bits = (254u - code) << 23;
  bits = code == 254u ? zero + 0x00400000u : bits;
  return L::Float(code == 0xFFu ? zero + kNanBits : bits);
}

// A block's scale as it is stored (`stored`: a code, or the bits of an fp32)
// and the multiplier of its elements.
template <typename L>
struct BlockScale {
  typename L::U stored;
  typename L::F m;  // or divisor: see ScaledValue
};

// The block scale for a given `stored` value.
template <typename L, bool kOther = false>
QUANTD_FN BlockScale<L> UnderScale(const EncodeParams& p,
                                   const LineScale<L>& line,
                                   typename L::U stored) {
  switch (p.scaling) {
    case Scaling::kNvfp4:
      return {stored, WorksWithGlobal<kOther>(p.numerics)
                          ? Nvfp4OperandUnder<L>(p.numerics, line.s, stored)
                          : Nvfp4Multiplier<L>(stored, line.s_dec)};
    case Scaling::kMx:
      return {stored, kOther ? MxMultiplierBy<L>(p.numerics, stored)
                             : MxMultiplier<L>(stored)};
    case Scaling::kBlock: {
      // The stored scale is the inverse, from which the scale cannot be
      // recovered exactly. Squares therefore keep the scale itself until it is
      // written.
      const typename L::F scale = L::Float(stored);
      return {stored, kOther ? Fp8OperandOf<L>(p, scale) : scale};
    }
    case Scaling::kTensor:
    case Scaling::kChannel:
      break;
  }
  return {stored, kOther ? Fp8OperandOf<L>(p, line.scale) : line.scale};
}

// The scale of a block whose magnitudes have the maximum `max`, where NaN is
// above Inf, and the maximum `clean`, where NaN is dropped. For kBlock `stored`
// is the scale, not yet its inverse: see StoredScale.
template <typename L, bool kOther = false>
QUANTD_FN BlockScale<L> MakeBlockScale(const EncodeParams& p,
                                       const LineScale<L>& line,
                                       typename L::U max, typename L::U clean) {
  using U = typename L::U;
  const U zero{};
  U stored{};
  U nan{};
  switch (p.scaling) {
    case Scaling::kNvfp4:
      stored = WorksWithGlobal<kOther>(p.numerics)
                   ? Nvfp4ScaleUnder<L>(p, line.s, clean)
                   : Nvfp4Scale<L>(clean, Nvfp4InverseSix(line.s));
      nan = zero + kNvfp4NanScale;
      break;
    case Scaling::kMx:
      stored = kOther && p.numerics.mx != MxRule::kOption
                   ? MxScaleBy<L>(p, clean)
                   : MxScale<L>(p, clean);
      nan = zero + 0xFFu;
      break;
    case Scaling::kBlock:
      stored = L::Bits(kOther ? Fp8ScaleOf<L>(p, L::Float(clean))
                              : Fp8Scale<L>(p, L::Float(clean)));
      nan = zero + kNanBits;
      break;
    case Scaling::kTensor:
    case Scaling::kChannel:
      break;
  }
  if (p.propagate) stored = max > kInfBits ? nan : stored;
  return UnderScale<L, kOther>(p, line, stored);
}

// The stored form of a scale. FP8 scales are inverted, unless the profile's
// library stores the divisor of the elements. NVFP4 and MX scales are codes.
template <typename L, bool kOther = false>
QUANTD_FN typename L::U StoredScale(const EncodeParams& p,
                                    typename L::U stored) {
  if (p.scaling == Scaling::kNvfp4 || p.scaling == Scaling::kMx) return stored;
  const typename L::F inverse =
      kOther ? L::Float(stored) : L::Broadcast(1.0f) / L::Float(stored);
  const typename L::U nan = typename L::U{} + kNanBits;
  return IsNan<L>(inverse) ? nan : L::Bits(inverse);
}

// The multiplier of the elements, given a scale as StoredScale returns it. An
// FP8 scale cannot be recovered exactly from its inverse, so for
// TransformerEngine's blocks the result is off by a few units in the last
// place. It still tells which elements reach ElementLimits::clip: under the
// scale of their own maximum no element comes near it, and the scale 1 of a
// block with Inf is exact.
template <typename L, bool kOther = false>
QUANTD_FN typename L::F MultiplierOf(const EncodeParams& p,
                                     const LineScale<L>& line,
                                     typename L::U stored) {
  if (kOther || p.scaling != Scaling::kBlock) {
    return UnderScale<L, kOther>(p, line, stored).m;
  }
  const typename L::U bits = L::Bits(L::Broadcast(1.0f) / L::Float(stored));
  const typename L::U largest = typename L::U{} + kFltMaxBits;
  return L::Float(bits == kInfBits ? largest : bits);
}

// The scale of an FP8 tensor in the arithmetic of the parameters, and its
// stored value. For single numbers, not for loops.
QUANTD_FN float TensorScaleOf(const EncodeParams& p, float amax) {
  return p.numerics.other ? Fp8ScaleOf<Scalar>(p, amax)
                          : Fp8Scale<Scalar>(p, amax);
}
QUANTD_FN uint32_t StoredTensorScale(const EncodeParams& p, float scale) {
  const uint32_t bits = Scalar::Bits(scale);
  return p.numerics.other ? StoredScale<Scalar, true>(p, bits)
                          : StoredScale<Scalar>(p, bits);
}

// Converts a stored scale from its type to fp32 bits; codes stay unchanged.
template <typename L>
QUANTD_FN typename L::U ScaleFromType(DType type, typename L::U stored) {
  if (type == DType::kBF16) return stored << 16;
  return type == DType::kF16 ? L::Bits(DecodeF16<L>(stored)) : stored;
}

// Converts a value of StoredScale to the stored type, in the low bits.
template <typename L>
QUANTD_FN typename L::U ScaleInType(DType type, typename L::U stored) {
  if (type == DType::kBF16) return EncodeBf16<L>(L::Float(stored));
  return type == DType::kF16 ? EncodeF16<L>(L::Float(stored)) : stored;
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_BLOCK_SCALE_H_
