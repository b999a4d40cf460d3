// Computes E2M1 codes of a warp's sixteen lines of 16-bit elements, two codes
// at a time. Rounds to nearest in fp16 (kernels/cuda/tile/packed.cuh), in half
// the time of fp32, or stochastically
// (kernels/cuda/encode/nvfp4/stochastic.cuh).
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_PAIRS_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_PAIRS_CUH_

#include "kernels/cuda/encode/frame/codes/random.cuh"
#include "kernels/cuda/encode/frame/lines.cuh"
#include "kernels/cuda/encode/frame/team_group.cuh"
#include "kernels/cuda/encode/frame/values.cuh"

namespace quantd::cuda {

// --- codes with E8M0 scales -------------------------------------------------

// Codes of two fp16 magnitudes after scaling by a power of two, whose double is
// in both halves of `twice`. They are in the low bytes of the halves. The code
// of y is the smallest of 2y, y + 2 and y / 2 + 4, rounded to nearest even.
// Rounding is monotone, so each of the three can be rounded separately. Adding
// 1024 to it in fp16 rounds once, and leaves the code in the low bits below a
// known exponent. This is exact for all values with nonzero codes. Scaled
// values are below 8, and codes above that of 6 become that of 6.
__device__ __forceinline__ uint32_t CodesOfHalves(uint32_t x, uint32_t twice) {
  const uint32_t a = FusedHalves(x, twice, 0x64006400u);
  const uint32_t b = FusedHalves(x, twice - 0x04000400u, 0x64026402u);
  const uint32_t c = FusedHalves(x, twice - 0x08000800u, 0x64046404u);
  return __vminu2(__vimin3_u16x2(a, b, c), 0x64076407u);
}

// Converts bf16 to fp16 and subtracts the scale from the exponents.
struct MxFitOfBf16 {
  uint32_t least;
  uint32_t offset;

  // The largest magnitude must be 0, or far from the ends of fp32's range.
  __device__ __forceinline__ explicit MxFitOfBf16(uint32_t stored) {
    // The bf16 that becomes 0, as all smaller ones do. (Blocks of zeros have
    // the smallest scale.)
    const uint32_t zero = ((stored > 15 ? stored : 15) - 15) * 128;
    least = 0x10001u * zero;
    offset = 0u - least * 8u;
  }
};
__device__ __forceinline__ uint32_t CodePair(uint32_t magnitudes,
                                             const MxFitOfBf16& fit) {
  return CodesOfHalves(__vmaxu2(magnitudes, fit.least) * 8u + fit.offset,
                       0x40004000u);
}

// Multiplies fp16 twice, because a factor may be 2^27.
struct MxFitOfF16 {
  uint32_t first;
  uint32_t twice;  // the second factor, doubled

  __device__ __forceinline__ explicit MxFitOfF16(uint32_t stored) {
    const int exponent = 127 - static_cast<int>(stored > 100 ? stored : 100);
    const int one = exponent < 15 ? exponent : 15;
    first = 0x04000400u * static_cast<uint32_t>(one + 15);
    twice = 0x04000400u * static_cast<uint32_t>(exponent - one + 16);
  }
};
__device__ __forceinline__ uint32_t CodePair(uint32_t magnitudes,
                                             const MxFitOfF16& fit) {
  return CodesOfHalves(FusedHalves(magnitudes, fit.first, 0), fit.twice);
}

// The codes of four elements with their signs, in bytes, in the order 0 2 1 3.
template <typename Rule>
__device__ __forceinline__ uint32_t CodeBytes(uint32_t w0, uint32_t w1,
                                              const Rule& rule) {
  const uint32_t codes = __byte_perm(CodePair(w0 & 0x7FFF7FFFu, rule),
                                     CodePair(w1 & 0x7FFF7FFFu, rule), 0x6240);
  return codes | (SignBytes(w0, w1) & 0x08080808u);
}
// The codes of a block, four bits each.
template <typename Rule>
__device__ __forceinline__ uint2 CodesByRule(const Words& x, const Rule& rule) {
  uint32_t words[2];
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    const uint32_t* w = x.w + 4 * h;
    const uint32_t first = CodeBytes(w[0], w[1], rule);
    const uint32_t second = CodeBytes(w[2], w[3], rule);
    // Multiplying by 2^16 + 16 brings the four nibbles to the upper half.
    words[h] = __byte_perm(first * 0x10010u, second * 0x10010u, 0x7632);
  }
  return make_uint2(words[0], words[1]);
}

__device__ __forceinline__ uint2 MxCodesUnder(const Words& x, DType type,
                                              uint32_t stored) {
  if constexpr (kConvertsE2M1) {
    const float m = MxMultiplier<Scalar>(stored);
    return type == DType::kBF16 ? NearestCodes<DType::kBF16>(x, m)
                                : NearestCodes<DType::kF16>(x, m);
  }
  return type == DType::kBF16 ? CodesByRule(x, MxFitOfBf16(stored))
                              : CodesByRule(x, MxFitOfF16(stored));
}

// The codes of sixteen elements times m, rounded stochastically. Byte i of
// `random` belongs to element i.
__device__ __forceinline__ uint2 StochasticCodesUnder(
    const Words& x, DType type, float m, const uint32_t (&random)[4]) {
  return type == DType::kBF16 ? StochasticCodes<DType::kBF16>(x, m, random)
                              : StochasticCodes<DType::kF16>(x, m, random);
}

// Whether a block with this largest magnitude needs the generic functions.
__device__ __forceinline__ bool IsRareInMx(uint32_t max) {
  constexpr uint32_t kLeast = (127u - 90) << 23;
  constexpr uint32_t kMost = (127u + 90) << 23;
  return max - kLeast >= kMost - kLeast && max != 0;
}

// --- lines ------------------------------------------------------------------

// Encodes a lane's block with the generic functions. Sets the codes and returns
// the scale. Only `left` positions of the lane's half line exist.
template <typename C, typename Values, typename Random>
__device__ __noinline__ uint32_t EncodeRareBlock(
    const EncodeParams& kept, const LineScale<Scalar>& line, Values values,
    DType type, int block, int64_t left, LineCodes codes, Random random) {
  constexpr int kSixteens = C::kLength / kBlock;
  const EncodeParams p = C::Known(kept);
  float v[kSixteens][kBlock];
  for (int j = 0; j < kSixteens; ++j) {
    values.LoadAlone(block * kSixteens + j, type, v[j]);
  }
  uint32_t max = 0;
  uint32_t clean = 0;
  FindMaxima<Scalar>(&v[0][0], C::kLength, &max, &clean);
  const BlockScale<Scalar> scale = C::ScaleOf(p, line, max, clean);
  for (int j = 0; j < kSixteens; ++j) {
    const int i = block * kSixteens + j;
    RandomBytes<Scalar> bytes = {};
    if constexpr (C::kDraws) {
      uint32_t drawn[4];
      random.Draw(static_cast<uint32_t>(i), drawn);
      for (int k = 0; k < 4; ++k) bytes.words[k] = drawn[k];
    }
    uint32_t words[4];
    EncodeSixteen<Scalar>(p, v[j], scale.m, C::kDraws ? &bytes : nullptr,
                          words);
    KeepCodes<Scalar>(left - kBlock * i, words);
    codes.Set(static_cast<uint32_t>(i), make_uint2(words[0], words[1]));
  }
  return scale.stored;
}

// Encodes the lane's half of a line, which has `left` positions. Sets the codes
// and returns the scales, the first in the low byte. Sets `*special` to whether
// the half holds NaN or Inf. `random` is a LineRandom or ToNearest. All lanes
// must call this.
template <typename C, typename Values, typename Random>
__device__ __forceinline__ uint32_t EncodePairs(
    const EncodeParams& kept, const EncodeParams& p, const FrameCopyOf<C>& own,
    const Values& values, DType type, int64_t left, const LineCodes& codes,
    const Random& random, bool* special) {
  constexpr int kSixteens = C::kLength / kBlock;
  constexpr int kBlocks = kTileSide / 2 / C::kLength;
  uint32_t scales = 0;
  uint32_t rare = 0;
  uint32_t seen_max = 0;
#pragma unroll 1
  for (int b = 0; b < kBlocks; ++b) {
    Words x[kSixteens];
    uint32_t max = 0;
    QUANTD_UNROLL
    for (int j = 0; j < kSixteens; ++j) {
      x[j] = values.Take(b * kSixteens + j);
      const uint32_t m = LargestOfWords(x[j], type);
      max = m > max ? m : max;
    }
    seen_max = max > seen_max ? max : seen_max;
    uint32_t scale;
    bool is_rare;
    if constexpr (C::kMx) {
      scale = C::ScaleOf(p, {}, max, max).stored;
      is_rare = IsRareInMx(max);
      // (Both sixteens at once would need more registers than unrotated cells
      // have.)
#pragma unroll(C::kDraws && !C::kRht ? 1 : kSixteens)
      for (int j = 0; j < kSixteens; ++j) {
        const auto i = static_cast<uint32_t>(b * kSixteens + j);
        if constexpr (C::kDraws) {
          Words now;
          QUANTD_UNROLL
          for (int k = 0; k < kBlock / 2; ++k) {
            now.w[k] = j == 0 ? x[0].w[k] : x[1].w[k];
          }
          uint32_t words[4];
          random.Draw(i, words);
          codes.Set(i, StochasticCodesUnder(
                           now, type, MxMultiplier<Scalar>(scale), words));
        } else {
          codes.Set(i, MxCodesUnder(x[j], type, scale));
        }
      }
    } else if constexpr (C::kDraws) {
      const ValueTable& table = own.fits;
      const float wanted = __uint_as_float(max) * table.s_inv6;
      scale = E4M3Of(wanted);
      is_rare = IsRare(max, wanted) || !table.exact;
      uint32_t words[4];
      random.Draw(static_cast<uint32_t>(b), words);
      const float m = table.of[scale] / kE2M1Unit;
      codes.Set(static_cast<uint32_t>(b),
                StochasticCodesUnder(x[0], type, m, words));
    } else {
      const FitTable& fits = own.fits;
      const float wanted = __uint_as_float(max) * fits.s_inv6;
      scale = E4M3Of(wanted);
      const bool any = fits.whole() || fits.values.exact;
      is_rare = IsRare(max, wanted) || !any;
      uint2 coded;
      if constexpr (kConvertsE2M1) {
        coded = NearestCodes<DType::kBF16>(x[0], fits.values.of[scale]);
      } else if (fits.whole()) {
        coded = CodesUnder(x[0], FitWords(LoadShared2(SharedAddress(fits.of) +
                                                      scale * sizeof(CodeFit)),
                                          max));
      } else {
        coded = CodesWithoutFit(values.own(b), fits.values, scale);
      }
      codes.Set(static_cast<uint32_t>(b), coded);
    }
    scales |= scale << (8 * b);
    rare |= is_rare ? 1u << b : 0;
  }
  for (; rare != 0; rare &= rare - 1) {
    const int b = __ffs(static_cast<int>(rare)) - 1;
    const uint32_t scale = EncodeRareBlock<C>(kept, own.line, values, type, b,
                                              left, codes, random);
    scales = (scales & ~(0xFFu << (8 * b))) | scale << (8 * b);
  }
  *special = seen_max >= kInfBits;
  return scales;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_PAIRS_CUH_
