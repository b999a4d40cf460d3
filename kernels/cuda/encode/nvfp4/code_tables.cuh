// Tables in shared memory that are made for the amax of a copy. They hold the
// multiplier or the fit (kernels/cuda/tile/packed.cuh) of each scale. IsRare
// tells which blocks need the generic functions.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_CODE_TABLES_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_CODE_TABLES_CUH_

#include <cstdint>

#include "kernels/arith/nvfp4.h"
#include "kernels/cuda/ptx/e2m1_words.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"
#include "kernels/cuda/tile/element.cuh"
#include "kernels/cuda/tile/packed.cuh"
#include "kernels/cuda/tile/team.cuh"

namespace quantd::cuda {

// The exponent field of the E4M3 number 1. Multipliers of scales that differ
// only in the exponent differ by a power of two.
inline constexpr uint32_t kFieldOfOne = 7;

// The multiplier, times 2^shift, of a scale with exponent field `field`. `m` is
// the multiplier of the scale with the same mantissa and field kFieldOfOne.
// Both must be normal numbers.
__device__ __forceinline__ float OfField(float m, uint32_t field,
                                         int shift = 0) {
  const int exponent = static_cast<int>(kFieldOfOne - field) + shift;
  return m * __uint_as_float(static_cast<uint32_t>(127 + exponent) << 23);
}

// The multipliers for an amax. There are only 128 scales, so a division for
// each scale is cheaper than one for each block.
struct alignas(16) Multipliers {
  float of[128];  // by E4M3 code
  float s_inv6;   // from a block's maximum to its target scale

  // All threads of eight warps must call this; the caller synchronizes before
  // and after.
  __device__ __forceinline__ void Fill(float amax, float range) {
    const float s = Nvfp4EncodeScale<Scalar>(amax, range);
    const unsigned thread = threadIdx.x % kThreads;
    if (thread < 128) of[thread] = Nvfp4Multiplier<Scalar>(thread, 1.0f / s);
    if (thread == 0) s_inv6 = Nvfp4InverseSix(s);
  }
};

// A table to compute codes in fp32 (kernels/cuda/encode/nvfp4/nearest.cuh).
struct alignas(16) ValueTable {
  float of[128];  // multipliers in kE2M1Unit, by E4M3 code
  float s_inv6;   // from a block's maximum to its target scale
  bool exact;     // no multiplier is near the ends of fp32's range

  // All threads of eight warps must call this; the caller synchronizes before
  // and after.
  __device__ __forceinline__ void Fill(float amax, float range) {
    const float s = Nvfp4EncodeScale<Scalar>(amax, range);
    const unsigned thread = threadIdx.x % kThreads;
    if (thread < 128) {
      of[thread] = Nvfp4Multiplier<Scalar>(thread, 1.0f / s) * kE2M1Unit;
    }
    if (thread == 0) {
      s_inv6 = Nvfp4InverseSix(s);
      // The largest scale has the smallest multiplier.
      exact = Nvfp4Multiplier<Scalar>(0x7E, 1.0f / s) >= 0x1p-100f;
    }
  }
};

// A candidate for a CodeFit.
struct FitCandidate {
  int8_t eighths;  // added to x
  int8_t steps;    // from the fp16 nearest to the multiplier to the factor
  int8_t addend;   // in units of 2^-24
};
// The candidates were chosen one after another, each for the most of 19,000
// multipliers that those before do not fit. Without one of them more amaxes
// have no fits, and their blocks are encoded in fp32. Other candidates with up
// to 30 eighths, 36 steps and an addend of 4 fit no more of the multipliers.
__constant__ const FitCandidate kFitCandidates[32] = {
    {0, -1, 0},  {0, 1, -1},    {0, 0, 0},     {0, 0, -1},    {-1, 0, -1},
    {-3, 3, -1}, {6, -5, -1},   {8, -6, 0},    {-9, 11, 0},   {-4, 5, -1},
    {-1, -1, 0}, {-9, 8, 0},    {3, -1, -1},   {-22, 17, -2}, {-18, 19, -2},
    {8, -7, -2}, {-22, 18, -2}, {-19, 18, -2}, {-25, 30, -1}, {4, -2, -1},
};

// A table to find codes in fp16. Fill searches for the fit of each scale. GPUs
// that convert to E2M1 need no fits.
struct alignas(16) FitTable {
  union {
    // By E4M3 code. Entries of subnormal scales are not set, except for 0, the
    // scale of blocks of zeros.
    CodeFit of[128];
    // Replaces the fits if any scale has no fit. With a tensor's own amax, many
    // blocks can have that scale, and lanes that diverge would take the time of
    // both paths.
    ValueTable values;
  };
  float s_inv6;  // from a block's maximum to its target scale
  // 1 for each mantissa with which scales have no fit.
  alignas(8) uint8_t misses[8];

  // Whether all scales have fits.
  __device__ __forceinline__ bool whole() const {
    if constexpr (kConvertsE2M1) return false;
    const uint2 words = LoadShared2(SharedAddress(misses));
    return (words.x | words.y) == 0;
  }

  // All threads of a team must call this; the caller synchronizes before and
  // after.
  //
  // Multipliers of scales that differ only in the exponent differ by a power of
  // two. So a warp takes the scales of one mantissa. Each lane tries one
  // candidate: a factor c near the multiplier, and what is added to x and to
  // the product.
  __device__ __noinline__ void Fill(float amax, float range) {
    const float s = Nvfp4EncodeScale<Scalar>(amax, range);
    const uint32_t thread = threadIdx.x % kThreads;
    if (thread == 0) s_inv6 = Nvfp4InverseSix(s);
    if constexpr (kConvertsE2M1) return values.Fill(amax, range);
    const uint32_t mantissa = thread / 32;
    const uint32_t lane = threadIdx.x % 32;
    const float s_dec = 1.0f / s;
    const uint32_t m = __float_as_uint(
        Nvfp4Multiplier<Scalar>(kFieldOfOne << 3 | mantissa, s_dec));
    const uint32_t fraction = (m & 0x7FFFFFu) | 0x3F800000u;

    // In lanes 0 to 6: the first bf16 beyond the lane's threshold.
    uint32_t first =
        __float_as_uint(ThresholdOf(lane) / __uint_as_float(fraction)) >> 16;
    QUANTD_UNROLL
    for (int i = 0; i < 2; ++i) {
      const float y = __uint_as_float(first << 16) * __uint_as_float(fraction);
      if (!Passes(y, lane)) ++first;
    }

    const FitCandidate tried = kFitCandidates[lane];
    const uint32_t factor = (1u << 10) +
                            ((fraction - 0x3F800000u + 0x1000u) >> 13) +
                            static_cast<uint32_t>(tried.steps);
    const uint32_t addend = tried.addend >= 0
                                ? static_cast<uint32_t>(tried.addend)
                                : 0x8000u - static_cast<uint32_t>(tried.addend);
    bool good = true;
    QUANTD_UNROLL
    for (uint32_t i = 0; i < 7; ++i) {
      // The numbers on both sides of threshold i: the upper one is in the high
      // half.
      const uint32_t both =
          __shfl_sync(0xFFFFFFFFu, first, static_cast<int>(i)) * 0x10001u - 1u;
      const uint32_t fractions =
          FusedHalves(both * 8u + OffsetOf(112 * 128, tried.eighths),
                      factor * 0x10001u, addend * 0x10001u);
      const uint32_t half = i * 512 + 256;
      good = good && fractions >> 16 >= half && (fractions & 0xFFFFu) < half;
    }
    const uint32_t found = __ballot_sync(0xFFFFFFFFu, good);
    const int best = (__ffs(static_cast<int>(found)) - 1) & 31;
    const uint32_t numbers =
        __shfl_sync(0xFFFFFFFFu, factor | addend << 16, best);
    const int eighths =
        __shfl_sync(0xFFFFFFFFu, static_cast<int>(tried.eighths), best);

    // (With these margins all multipliers are normal numbers.)
    const bool usable = found != 0 && m >> 23 >= 32 && m >> 23 < 224;
    if (lane == 0) misses[mantissa] = usable ? 0 : 1;
    Team::Sync();
    if (!whole()) return values.Fill(amax, range);
    if (thread == 0) of[0] = {};
    if (lane == 0 || lane >= 16) return;
    // x' is x * 2^exponent, and c replaces m / 2^exponent.
    const int exponent =
        static_cast<int>(m >> 23) - 127 + static_cast<int>(kFieldOfOne - lane);
    CodeFit& fit = of[lane << 3 | mantissa];
    fit.factor = static_cast<uint16_t>(numbers);
    fit.addend = static_cast<uint16_t>(numbers >> 16);
    fit.offset = OffsetOf((112 - exponent) * 128, eighths);
  }

 private:
  // The offset of a CodeFit. `zero` is the bf16 whose x' is 0.
  static __device__ __forceinline__ uint32_t OffsetOf(int zero, int eighths) {
    return 0x10001u * static_cast<uint32_t>(eighths - 8 * zero);
  }
  // The threshold between codes i and i + 1, and whether y is beyond it. Ties
  // go to the even code.
  static __device__ __forceinline__ float ThresholdOf(uint32_t i) {
    const float y = i < 4 ? 0.25f + 0.5f * i : i - 1.5f;
    return i == 6 ? 5.0f : y;
  }
  static __device__ __forceinline__ bool Passes(float y, uint32_t i) {
    return i % 2 == 0 ? y > ThresholdOf(i) : y >= ThresholdOf(i);
  }
};

// The address of the table of a group's copy.
template <typename Byte>
__device__ __forceinline__ Byte* CodeTableAt(Byte* tables, int64_t group,
                                             uint32_t copy) {
  return tables + (2 * group + copy) * kCodeTableBytes;
}

// Copy a table from shared memory to global memory, and back. All threads of
// eight warps must call them. The caller synchronizes before StoreCodeTable and
// after LoadCodeTable.
template <typename Table>
__device__ __forceinline__ void StoreCodeTable(const Table& table,
                                               std::byte* to) {
  static_assert(sizeof(Table) % 16 == 0 && sizeof(Table) <= kCodeTableBytes);
  for (uint32_t i = threadIdx.x % kThreads; i < sizeof(Table) / 16;
       i += kThreads) {
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(&table)[i];
  }
}
template <typename Table>
__device__ __forceinline__ void LoadCodeTable(const std::byte* from,
                                              Table* table) {
  for (uint32_t i = threadIdx.x % kThreads; i < sizeof(Table) / 16;
       i += kThreads) {
    reinterpret_cast<uint4*>(table)[i] =
        reinterpret_cast<const uint4*>(from)[i];
  }
}

// Loads the table of copy `number` of a group into a team's shared memory.
// LaunchWriteAmax has made it. All threads of the team must call this. The
// caller synchronizes them afterwards.
template <typename Table>
__device__ __forceinline__ void BringCodeTable(const EncodeArgs& a,
                                               uint32_t group, uint32_t number,
                                               const CopyTask& /*copy*/,
                                               Table* table) {
  LoadCodeTable(CodeTableAt(a.tables, group, number), table);
}

// Whether a block with the target scale `wanted` and the largest magnitude
// `max` (fp32 bits) needs the generic functions. Such a block holds NaN or Inf,
// or its scale is not a normal E4M3 number, so that values may reach 7 and must
// be clamped.
__device__ __forceinline__ bool IsRare(uint32_t max, float wanted) {
  return Nvfp4MayReach7<Scalar>(wanted) && max != 0;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_CODE_TABLES_CUH_
