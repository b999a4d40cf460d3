// NVFP4, rowwise copy alone, rounded to nearest, with an amax for each group or
// for each row.
#include <optional>

#include "kernels/cuda/encode/nvfp4/nearest.cuh"
#include "kernels/cuda/encode/nvfp4/walk.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

// Multipliers for the amax of a single group, if the host knows this amax.
struct KnownMultipliers {
  float of[8];  // by mantissa, for scales with the exponent of 1
  float s_inv6;

  // nullopt if the host does not know the amax, or if a multiplier is too large
  // or too small to find codes with it.
  static std::optional<KnownMultipliers> Of(float amax, float range) {
    if (amax < 0.0f) return std::nullopt;
    const Nvfp4Encode encode = MakeNvfp4Encode(amax, range);
    KnownMultipliers known;
    known.s_inv6 = encode.s_inv6;
    for (uint32_t mantissa = 0; mantissa < 8; ++mantissa) {
      const float m =
          Nvfp4Multiplier<Scalar>(kFieldOfOne << 3 | mantissa, encode.s_dec);
      if (!(m >= 0x1p-80f && m <= 0x1p80f)) return std::nullopt;
      known.of[mantissa] = m;
    }
    return known;
  }
  // The multiplier for an E4M3 code. (The generic functions encode blocks with
  // subnormal scales.)
  __device__ __forceinline__ float Of(uint32_t code) const {
    return OfField(of[code & 7], code == 0 ? kFieldOfOne : code >> 3);
  }
};

// kKnown says that `known` is set.
template <DType D, bool kRht, bool kKnown>
struct Coder {
  static constexpr DType kType = kWalked<D, kRht>;
  static constexpr bool kGathers = true;
  const EncodeArgs& a;
  const KnownMultipliers& known;
  Multipliers* table;
  RowGroup group = {};
  float s_inv6 = 0.0f;
  bool exact = false;  // a 64th of every multiplier is exact

  __device__ __forceinline__ void Settle() {
    if constexpr (kKnown) {
      if (threadIdx.x < 128) table->of[threadIdx.x] = known.Of(threadIdx.x);
    } else {
      LoadCodeTable(CodeTableAt(a.tables, group.number, 0), table);
    }
    __syncthreads();
  }
  __device__ __forceinline__ void Begin(int64_t /*row*/, int64_t /*b*/) {
    s_inv6 = kKnown ? known.s_inv6 : table->s_inv6;
    exact = kKnown || table->of[0x7E] >= 0x1p-100f;  // the smallest one
  }
  __device__ __forceinline__ bool Encode(const Words& x, Unit* unit) {
    const uint32_t max = LargerHalf<kType>(LargestOfSigned<kType>(x));
    const float wanted = __uint_as_float(max) * s_inv6;
    unit->scale = E4M3Of(wanted);
    unit->codes = NearestCodes<kType>(x, table->of[unit->scale] * kE2M1Unit);
    return !IsRare(max, wanted) && exact;
  }
  __device__ __forceinline__ Unit EncodeRare(const Words& x, int64_t /*row*/,
                                             int64_t /*b*/) const {
    const CopyTask& copy = group.task->rowwise;
    return cuda::EncodeRare<D>(a.params, x,
                               copy.signs != nullptr ? a.signs : nullptr,
                               *copy.amax, nullptr, a.seen);
  }
};

template <DType D, bool kRht, bool kKnown>
__global__ void __launch_bounds__(kThreads, RowWalk::kResident)
    EncodeNvfp4Rows(const __grid_constant__ EncodeArgs a,
                    const __grid_constant__ RowWalk walk,
                    const __grid_constant__ KnownMultipliers known) {
  __shared__ Multipliers table;
  Coder<D, kRht, kKnown> coder = {a, known, &table};
  WalkRows<D, kRht>(a, walk, &coder);
}

template <bool kRht>
cudaError_t LaunchRows(const EncodeArgs& a, const Queue& queue) {
  const RowWalk walk(a, queue);
  const auto known = KnownMultipliers::Of(a.known_amax, a.params.range);
  return ForTwoByteType(a, [&](auto type) {
    const auto kernel = known ? &EncodeNvfp4Rows<type(), kRht, true>
                              : &EncodeNvfp4Rows<type(), kRht, false>;
    return LaunchEarly(kernel, walk.Grid(a), {kThreads}, queue, a, walk,
                       known.value_or(KnownMultipliers{}));
  });
}

// --- an amax for each row ---------------------------------------------------

// Values for a row's amax. A table of multipliers for each row would take
// longer than a division for each block.
struct RowScale {
  float s_inv6;  // from a block's maximum to its target scale
  float s_dec;   // 1 / S; 0: the row's blocks go to the generic functions
};

template <DType D>
struct ScaledCoder {
  static constexpr bool kGathers = true;
  const EncodeArgs& a;
  const int stride;  // rows between consecutive blocks of a thread
  RowScale* rows;    // rows of the chunk
  RowGroup group = {};
  int row = 0;  // the thread's next row in the chunk

  __device__ __forceinline__ void Settle() {
    const auto line = static_cast<int>(threadIdx.x);
    if (line < group.rows) {
      const Nvfp4Encode encode =
          MakeNvfp4Encode(group.amax[group.top + line], a.params.range);
      // The largest scale has the smallest multiplier.
      const bool exact =
          Nvfp4Multiplier<Scalar>(0x7E, encode.s_dec) >= 0x1p-100f;
      rows[line] = {encode.s_inv6, exact ? encode.s_dec : 0.0f};
    }
    __syncthreads();
  }
  __device__ __forceinline__ void Begin(int64_t first, int64_t /*b*/) {
    row = static_cast<int>(first - group.top);
  }
  __device__ __forceinline__ bool Encode(const Words& x, Unit* unit) {
    const RowScale scale = rows[row];
    row += stride;
    const uint32_t max = LargerHalf<D>(LargestOfSigned<D>(x));
    const float wanted = __uint_as_float(max) * scale.s_inv6;
    unit->scale = E4M3Of(wanted);
    const float m = Nvfp4Multiplier<Scalar>(unit->scale, scale.s_dec);
    unit->codes = NearestCodes<D>(x, m * kE2M1Unit);
    return !IsRare(max, wanted) && scale.s_dec != 0.0f;
  }
  __device__ __forceinline__ Unit EncodeRare(const Words& x, int64_t line,
                                             int64_t /*b*/) const {
    return cuda::EncodeRare<D>(a.params, x, nullptr, group.amax[line], nullptr,
                               a.seen);
  }
};

template <DType D>
__global__ void __launch_bounds__(kThreads, RowWalk::kResident)
    EncodeNvfp4ScaledRows(const __grid_constant__ EncodeArgs a,
                          const __grid_constant__ RowWalk walk) {
  __shared__ RowScale rows[kTileSide];
  ScaledCoder<D> coder = {a, walk.stride, rows};
  WalkRows<D, false>(a, walk, &coder);
}

}  // namespace

cudaError_t LaunchEncodeNvfp4Rows(const EncodeArgs& a, const Queue& queue) {
  return a.first.rowwise.signs != nullptr ? LaunchRows<true>(a, queue)
                                          : LaunchRows<false>(a, queue);
}

cudaError_t LaunchEncodeNvfp4ScaledRows(const EncodeArgs& a,
                                        const Queue& queue) {
  const RowWalk walk(a, queue);
  return ForTwoByteType(a, [&](auto type) {
    return LaunchEarly(&EncodeNvfp4ScaledRows<type()>, walk.Grid(a), {kThreads},
                       queue, a, walk);
  });
}

}  // namespace quantd::cuda
