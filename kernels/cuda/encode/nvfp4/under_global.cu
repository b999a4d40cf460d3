// NVFP4, rowwise copy alone, rounded to nearest, with blocks scaled by a stored
// global scale g (Numerics, kernels/plan/profile/numerics.h). It is as fast as
// rows.cu, because it replaces the division by a block's scale by a
// multiplication that gives the same codes.
#include "kernels/arith/profile/global_multipliers.h"
#include "kernels/arith/profile/numerics.h"
#include "kernels/cuda/encode/nvfp4/nearest.cuh"
#include "kernels/cuda/encode/nvfp4/walk.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

// Multipliers of all block scales for a global scale g.
//
// A code is a function of x / d, where x is a bf16 or an fp16, and d is
// computed from a scale and g. Codes change at seven thresholds, each between
// two neighbouring numbers of x's type. If the codes of x * m change between
// the same neighbours, m gives the same codes for all x. (fp16's subnormal
// numbers are a subset of the numbers that are tested.) The fp32 nearest to 1 /
// d, or a neighbour of it, nearly always is such an m. Values of d for scales
// that differ only in the exponent differ by a power of two, so Fill only has
// to find eight multipliers.
struct QuotientTable {
  static constexpr int kUnit = kConvertsE2M1 ? 0 : -6;  // log2 of kE2M1Unit
  float of[128];  // by E4M3 code, in kE2M1Unit; 0: use the generic functions
  float g;
  bool usable;  // no product comes near the ends of fp32's range

  // Fills the table with the host's results. All threads must call this; the
  // caller synchronizes after.
  __device__ __forceinline__ void Fill(const GlobalMultipliers& known) {
    const uint32_t code = threadIdx.x;
    if (code >= 128) return;
    of[code] = code == 0  ? kE2M1Unit  // for a block of zeros
               : code < 8 ? 0.0f       // subnormal
                          : OfField(known.of[code & 7], code >> 3, kUnit);
  }

  // Finds the multipliers. All threads of eight warps must call this; the
  // caller synchronizes before and after.
  template <DType D>
  __device__ __noinline__ void Fill(float amax, const EncodeParams& p) {
    // Low bits of fp32 that the type does not have.
    constexpr int kSpare = D == DType::kBF16 ? 16 : 13;
    const Numerics& n = p.numerics;
    const float global = GlobalScaleOf<Scalar>(p, amax);
    if (threadIdx.x == 0) {
      g = global;
      usable = HasGlobalMultipliers(n, global);
      of[0] = kE2M1Unit;  // for a block of zeros
    }
    const int lane = static_cast<int>(threadIdx.x % 32);
    const uint32_t mantissa = threadIdx.x / 32;
    const float d =
        Nvfp4OperandUnder<Scalar>(n, global, kFieldOfOne << 3 | mantissa);
    float m = d;
    if (n.operation != Operation::kTimes) {
      // A lane tests candidate lane / 8 at threshold lane % 8.
      const int i = lane % 8 < 7 ? lane % 8 : 6;
      // The first number of the type beyond the threshold.
      uint32_t first = __float_as_uint(ThresholdOf(i) * d) >> kSpare;
      QUANTD_UNROLL
      for (int k = 0; k < 2; ++k) {
        if (!Passes(__uint_as_float(first << kSpare) / d, i)) ++first;
      }
      constexpr int kBeside[] = {0, 1, -1, 2};
      const uint32_t nearest = __float_as_uint(1.0f / d);
      const float c =
          __uint_as_float(nearest + static_cast<uint32_t>(kBeside[lane / 8]));
      const bool good = Passes(__uint_as_float(first << kSpare) * c, i) &&
                        !Passes(__uint_as_float((first - 1) << kSpare) * c, i);
      const uint32_t found = __ballot_sync(0xFFFFFFFFu, good);
      m = 0.0f;
      QUANTD_UNROLL
      for (int candidate = 3; candidate >= 0; --candidate) {
        if ((found >> (8 * candidate) & 0xFFu) != 0xFFu) continue;
        m = __uint_as_float(nearest +
                            static_cast<uint32_t>(kBeside[candidate]));
      }
    }
    // Entries of subnormal scales are not set.
    if (lane == 0 || lane >= 16) return;
    of[lane << 3 | mantissa] = OfField(m, static_cast<uint32_t>(lane), kUnit);
  }

 private:
  // The threshold between codes i and i + 1, and whether y is beyond it. Ties
  // go to the even code.
  static __device__ __forceinline__ float ThresholdOf(int i) {
    return i == 6 ? 5.0f : i < 4 ? 0.25f + 0.5f * i : i - 1.5f;
  }
  static __device__ __forceinline__ bool Passes(float y, int i) {
    return i % 2 == 0 ? y > ThresholdOf(i) : y >= ThresholdOf(i);
  }
};

// Encodes any block with the generic functions.
template <DType D>
__device__ __noinline__ Unit EncodeRareUnder(const EncodeParams& p,
                                             const Words& x, float amax,
                                             uint32_t* seen) {
  float v[kBlock];
  Unpack<D>(x, v);
  uint32_t max, clean;
  FindMaxima<Scalar>(v, kBlock, &max, &clean);
  Report(SeenIn(max, clean), seen);
  const LineScale<Scalar> line = MakeLineScale<Scalar, true>(p, amax, 1.0f);
  const BlockScale<Scalar> scale =
      MakeBlockScale<Scalar, true>(p, line, max, clean);
  uint32_t words[4];
  EncodeSixteen<Scalar, true>(p, v, scale.m, nullptr, words);
  return {make_uint2(words[0], words[1]), scale.stored};
}

// How the target scale is computed from a block's maximum. Each enumerator has
// its own kernel, because CTAs are so short that fetching unused code would
// matter.
enum class Way {
  kFind,     // by the formula; the kernel finds the multipliers
  kProduct,  // by one multiplication; the host finds the multipliers
  kSixth,    // by a sixth in bf16; the host finds the multipliers
};

// With kNegative only elements below 0 get a sign, so -0 does not.
template <DType D, Way kWay, bool kNegative>
struct Coder {
  static constexpr bool kGathers = true;
  const EncodeArgs& a;
  const GlobalMultipliers& known;
  QuotientTable* table;
  RowGroup group = {};
  float g = 0.0f;
  bool usable = true;

  __device__ __forceinline__ void Settle() {
    if constexpr (kWay == Way::kFind) {
      table->Fill<D>(*group.amax, a.params);
    } else {
      table->Fill(known);
    }
    __syncthreads();
  }
  __device__ __forceinline__ void Begin(int64_t /*row*/, int64_t /*b*/) {
    if constexpr (kWay == Way::kFind) {
      g = table->g;
      usable = table->usable;
    }
  }
  __device__ __forceinline__ bool Encode(const Words& x, Unit* unit) {
    const Numerics& n = a.params.numerics;
    const uint32_t max = LargerHalf<D>(LargestOfSigned<D>(x));
    const float wanted = Wanted(max);
    unit->scale = max == 0 ? n.zero_scale : E4M3Of(wanted);
    const float m = table->of[unit->scale];
    unit->codes = Codes<false>(x, m);
    if (n.operation == Operation::kOverOrZero && max == 0) {
      unit->codes = make_uint2(0, 0);
    }
    const bool ordinary = kWay != Way::kFind || (usable && m != 0.0f);
    return !IsRare(max, wanted) && ordinary;
  }
  __device__ __forceinline__ Unit EncodeRare(const Words& x, int64_t /*row*/,
                                             int64_t /*b*/) const {
    const uint32_t max = LargerHalf<D>(LargestOfSigned<D>(x));
    if (usable && table->of[kLargestScale] != 0.0f && max < kInfBits &&
        Wanted(max) >= 448.0f) {
      // The maximum is a little larger than the amax allows. This often happens
      // if a given amax is not the tensor's own.
      return {Codes<true>(x, table->of[kLargestScale]), kLargestScale};
    }
    Unit unit = EncodeRareUnder<D>(a.params, x, *group.amax, a.seen);
    unit.codes = InOrder(unit.codes);
    return unit;
  }

 private:
  static constexpr uint32_t kLargestScale = 0x7E;

  __device__ __forceinline__ uint2 InOrder(uint2 codes) const {
    if (!a.params.numerics.high_first) return codes;
    return make_uint2(SwapNibbles<Scalar>(codes.x),
                      SwapNibbles<Scalar>(codes.y));
  }
  // With kClamped, x may hold any finite numbers. Otherwise m must bring all of
  // them below 7.
  template <bool kClamped>
  __device__ __forceinline__ uint2 Codes(const Words& x, float m) const {
    return InOrder(NearestCodes<D, kClamped, kNegative>(x, m));
  }
  __device__ __forceinline__ float Wanted(uint32_t max) const {
    const float b = __uint_as_float(max);
    if constexpr (kWay == Way::kProduct) return b * known.scale;
    // (If the sixth is not a normal number, the block is rare.)
    if constexpr (kWay == Way::kSixth) {
      return SixthInBf16<Scalar>(b) * known.global;
    }
    return Nvfp4TargetUnder<Scalar>(a.params, g, max);
  }
};

template <DType D, Way kWay, bool kNegative>
__global__ void __launch_bounds__(kThreads, RowWalk::kResident)
    EncodeNvfp4UnderGlobal(const __grid_constant__ EncodeArgs a,
                           const __grid_constant__ RowWalk walk,
                           const __grid_constant__ GlobalMultipliers known) {
  __shared__ QuotientTable table;
  Coder<D, kWay, kNegative> coder = {a, known, &table};
  WalkRows<D, false>(a, walk, &coder);
}

template <DType D, Way kWay>
cudaError_t Launch(const EncodeArgs& a, const GlobalMultipliers& known,
                   const Queue& queue) {
  const RowWalk walk(a, queue);
  const auto kernel = a.params.numerics.sign == SignRule::kNegative
                          ? &EncodeNvfp4UnderGlobal<D, kWay, true>
                          : &EncodeNvfp4UnderGlobal<D, kWay, false>;
  return LaunchEarly(kernel, walk.Grid(a), {kThreads}, queue, a, walk, known);
}

}  // namespace

cudaError_t LaunchEncodeNvfp4UnderGlobal(const EncodeArgs& a,
                                         const Queue& queue) {
  GlobalMultipliers known;
  // The host finds multipliers only for bf16.
  if (a.known_amax >= 0.0f && a.params.input == DType::kBF16) {
    known = MakeGlobalMultipliers<Scalar>(
        a.params, GlobalScaleOf<Scalar>(a.params, a.known_amax));
  }
  if (known.usable && !ScalesByProduct(a.params.numerics)) {
    return Launch<DType::kBF16, Way::kSixth>(a, known, queue);
  }
  // (Under a few global scales no multiplier turns maxima into block scales.)
  if (known.usable && known.scale != 0.0f) {
    return Launch<DType::kBF16, Way::kProduct>(a, known, queue);
  }
  return ForTwoByteType(a, [&](auto type) {
    return Launch<type(), Way::kFind>(a, known, queue);
  });
}

}  // namespace quantd::cuda
