// Maxima of bf16 matrices, plain and rotated both ways, from one read.
//
// No element of a rotated block is larger than a quarter of the sum of its
// magnitudes, and for nearly all blocks that is enough to tell that they cannot
// raise the maximum found so far. Tensor cores make these sums. Where it is not
// enough they rotate: in another order of additions than the one that counts
// (kernels/FORMATS.md), but near enough to tell again. What is left is rotated
// in order.
//
// How near: with M the largest magnitude of a rotated block and x the block,
// |x_i| / 4 <= norm(x) / 4 <= M, for the rotation keeps the norm. The product
// drops at most 2^-22 of its largest term from each of 16 terms: 2^-18 M. In
// the butterfly each of four stages rounds sums of at most 4 M by 2^-24: 2^-20
// M. kMargin is much more than both.
#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/rotate.cuh"
#include "kernels/cuda/staged_tile.cuh"

namespace quantd::cuda {
namespace {

constexpr int kStages = 3;
constexpr int kPerMultiprocessor = 2;
constexpr int kSquares = kTileSide / kBlock;
constexpr float kMargin = 1.0f + 0x1p-14f;
// Squares are not for the tensor cores whose largest magnitude is below the one
// or not below the other; and what such a small one may come to.
constexpr uint32_t kTiny = 0x0E000000u;     // 2^-99
constexpr uint32_t kHuge = 0x7B800000u;     // 2^120
constexpr uint32_t kMostTiny = 0x0F800000u;  // 2^-96

struct AmaxTilesArgs {
  GroupList list;  // one group
  GroupTask first;
  float signs[kBlock];
  Found* found;
};

using Ring = TileRing<kStages, TileLayout::kSwizzled>;

// What is known of a maximum of rotated elements, rounded to bf16, as fp32 bits:
// the largest one of blocks that were rotated in order, and what it is at least.
struct Maximum {
  uint32_t found;
  uint32_t least;
};
struct Shared {
  Ring::Storage ring;
  Maximum rows;
  Maximum columns;
};

// The larger one of `max` and this lane's magnitudes in a rotated square, about.
__device__ __forceinline__ float RotatedMaximum(const uint32_t (&x)[4],
                                                const Rotation& rotation,
                                                float max) {
  float y[2][4];
  rotation.Apply(x, y);
  QUANTD_UNROLL
  for (int n = 0; n < 2; ++n) {
    const float low = fmaxf(fabsf(y[n][0]), fabsf(y[n][1]));
    max = fmaxf(max, fmaxf(low, fmaxf(fabsf(y[n][2]), fabsf(y[n][3]))));
  }
  return max;
}

// Rounded to bf16, as fp32 bits; x is finite and not negative.
__device__ __forceinline__ uint32_t Rounded(float x) {
  return PackBf16(x, 0.0f) << 16;
}

// Shared memory that other warps write, too.
__device__ __forceinline__ Maximum Read(const volatile Maximum& m) {
  return {m.found, m.least};
}
// Whether blocks may raise the maximum, whose elements are about `largest`; and
// whether those of a square of tiny numbers may.
__device__ __forceinline__ bool MayRaise(const Maximum& m, float largest) {
  const uint32_t most = Rounded(largest * kMargin);
  return most > m.found && most >= m.least;
}
__device__ __forceinline__ bool TinyMayRaise(const Maximum& m) {
  return m.found < kMostTiny && m.least < kMostTiny;
}

// One square in order: a lane is a row, or a column.
__device__ __noinline__ void MaximumInOrder(const StagedTile& tile, int row,
                                            int col, bool rows, bool columns,
                                            const float* signs,
                                            Shared* shared, Found* found) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool column = lane >= kBlock;
  float v[kBlock];
  uint32_t seen = 0;
  uint32_t max = 0;
  uint32_t plain = 0;
  if (!column || columns) {
    for (int i = 0; i < kBlock; ++i) {
      const int r = row + (column ? i : lane);
      const int c = col + (column ? lane - kBlock : i);
      const std::byte* p = tile.bytes + SwizzledOffset(r, c);
      v[i] = DecodeBf16<Scalar>(*reinterpret_cast<const uint16_t*>(p));
    }
    uint32_t all;
    Maxima<Scalar>(v, kBlock, &all, &plain);
    seen |= SeenIn(all, plain);
    if (column || rows) {
      max = RotateToBf16<Scalar, true>(v, signs);
      if (max > kInfBits) {
        seen |= column ? kSeenColRhtNan : kSeenRowRhtNan;
        max = MaxMagnitudeIgnoringNan<Scalar>(v);
      }
    }
  }
  plain = __reduce_max_sync(0xFFFFFFFFu, plain);
  const uint32_t row_max = __reduce_max_sync(0xFFFFFFFFu, column ? 0 : max);
  const uint32_t col_max = __reduce_max_sync(0xFFFFFFFFu, column ? max : 0);
  Report(seen, found);
  if (lane == 0) {
    atomicMax(&found->plain, plain);
    if (atomicMax(&shared->rows.found, row_max) < row_max) {
      atomicMax(&found->row_rht, row_max);
    }
    if (atomicMax(&shared->columns.found, col_max) < col_max) {
      atomicMax(&found->col_rht, col_max);
    }
  }
  __syncwarp();
}

// Where a warp's sixteen rows of a tile are, square by square.
struct WarpRows {
  uint32_t plain;   // shared addresses for this lane's row of fragments: of a
  uint32_t turned;  // square as it is, and transposed

  __device__ __forceinline__ explicit WarpRows(const StagedTile& tile) {
    const int row = static_cast<int>(threadIdx.x / kWarp * kBlock);
    const int lane = static_cast<int>(threadIdx.x % kWarp);
    const int half = lane / 8 % 2 * 8;
    const int other = lane / 16 * 8;
    const uint32_t base = SharedAddress(tile.bytes);
    plain = base + SwizzledOffset(row + half + lane % 8, other);
    turned = base + SwizzledOffset(row + other + lane % 8, half);
  }
  // Of square c: two pieces of 16 bytes further, within 128 bytes.
  static __device__ __forceinline__ uint32_t At(uint32_t first, int c) {
    return (first ^ c % 4 * 32) + c / 4 * kSwizzledBox;
  }
};

// What this lane knows of squares: magnitudes of plain halves, NaN above Inf,
// and of what rotations may make of them.
struct Known {
  uint32_t plain = 0;
  float row = 0.0f;
  float col = 0.0f;

  // Adds square c: with sums of magnitudes, or with the rotated ones themselves.
  template <bool kRows, bool kColumns, bool kRotated>
  __device__ __forceinline__ void Add(const WarpRows& rows, int c,
                                      const Rotation& rotation) {
    uint32_t x[4];
    LoadFragmentsAt<false>(WarpRows::At(rows.plain, c), x);
    uint32_t magnitudes[4];
    Magnitudes(x, magnitudes);
    plain = LargerOf(plain, LargestOf(magnitudes));
    if constexpr (kRows) {
      row = kRotated ? RotatedMaximum(x, rotation, row)
                     : QuarterSum(magnitudes, row);
    }
    if constexpr (kColumns) {
      LoadFragmentsAt<true>(WarpRows::At(rows.turned, c), x);
      Magnitudes(x, magnitudes);
      col = kRotated ? RotatedMaximum(x, rotation, col)
                     : QuarterSum(magnitudes, col);
    }
  }
  // Whether it may raise a maximum, by sums, or is not for tensor cores.
  template <bool kRows, bool kColumns>
  __device__ __forceinline__ bool Matters(const Shared& shared) const {
    const uint32_t magnitude = LargerHalf(plain);
    bool matters = magnitude >= kHuge;
    if constexpr (kRows) {
      const Maximum m = Read(shared.rows);
      matters |= TinyMayRaise(m) ? magnitude != 0 : MayRaise(m, row);
    }
    if constexpr (kColumns) {
      const Maximum m = Read(shared.columns);
      matters |= TinyMayRaise(m) ? magnitude != 0 : MayRaise(m, col);
    }
    return matters;
  }

 private:
  static __device__ __forceinline__ void Magnitudes(const uint32_t (&x)[4],
                                                    uint32_t (&magnitudes)[4]) {
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) magnitudes[i] = x[i] & 0x7FFF7FFFu;
  }
  // The larger one of `max` and quarters of the sums of blocks' magnitudes.
  static __device__ __forceinline__ float QuarterSum(
      const uint32_t (&magnitudes)[4], float max) {
    constexpr uint32_t kQuarters = 0x3E803E80u;
    float sums[4];  // two of them twice
    Multiply<DType::kBF16>(magnitudes, kQuarters, kQuarters, sums);
    return fmaxf(max, fmaxf(sums[0], sums[2]));
  }
};

// The largest of a warp's numbers, which are not negative.
__device__ __forceinline__ float LargestOfWarp(float x) {
  return __uint_as_float(
      __reduce_max_sync(0xFFFFFFFFu, __float_as_uint(x)));
}

// Squares of a warp's rows, of which sums of magnitudes have not said enough:
// by tensor cores, and in order where it takes that. Adds plain magnitudes that
// are not counted with the latter.
template <bool kRows, bool kColumns>
__device__ __forceinline__ void RaiseMaxima(const AmaxTilesArgs& a,
                                            const StagedTile& tile,
                                            const WarpRows& rows,
                                            const Rotation& rotation,
                                            Shared* s, uint32_t* plain) {
  const uint32_t lane = threadIdx.x % kWarp;
  uint32_t order = 0;  // squares, as bits
  uint32_t tiny = 0;
  float row = 0.0f;  // lane c: of square c
  float col = 0.0f;
#pragma unroll 1
  for (uint32_t c = 0; c < kSquares; ++c) {
    Known one;
    one.Add<kRows, kColumns, true>(rows, static_cast<int>(c), rotation);
    const uint32_t magnitude =
        __reduce_max_sync(0xFFFFFFFFu, LargerHalf(one.plain));
    if (magnitude < kInfBits) *plain = LargerOf(*plain, one.plain);
    if (magnitude >= kHuge) order |= 1u << c;
    if (magnitude < kTiny && magnitude != 0) tiny |= 1u << c;
    if (magnitude < kTiny || magnitude >= kHuge) continue;
    const float row_max = LargestOfWarp(one.row);
    const float col_max = LargestOfWarp(one.col);
    if (lane == c) {
      row = row_max;
      col = col_max;
    }
  }
  const uint32_t row_least = Rounded(LargestOfWarp(row) / kMargin);
  const uint32_t col_least = Rounded(LargestOfWarp(col) / kMargin);
  if (lane == 0) {
    atomicMax(&s->rows.least, row_least);
    atomicMax(&s->columns.least, col_least);
  }
  __syncwarp();
  const auto may_raise = [&](float r, float c) {
    return (kRows && MayRaise(Read(s->rows), r)) ||
           (kColumns && MayRaise(Read(s->columns), c));
  };
  const bool tiny_may = (kRows && TinyMayRaise(Read(s->rows))) ||
                        (kColumns && TinyMayRaise(Read(s->columns)));
  if (__any_sync(0xFFFFFFFFu, tiny_may)) order |= tiny;
  const uint32_t candidates =
      __ballot_sync(0xFFFFFFFFu, may_raise(row, col));
  for (uint32_t left = order | candidates; left != 0; left &= left - 1) {
    const int c = __ffs(static_cast<int>(left)) - 1;
    // (A candidate may have lost its chance to another.)
    const bool now = may_raise(__shfl_sync(0xFFFFFFFFu, row, c),
                               __shfl_sync(0xFFFFFFFFu, col, c));
    if (__any_sync(0xFFFFFFFFu, now) || (order >> c & 1) != 0) {
      MaximumInOrder(tile, static_cast<int>(threadIdx.x / kWarp * kBlock),
                     c * kBlock, kRows, kColumns, a.signs, s, a.found);
    }
  }
}

template <bool kRows, bool kColumns>
__global__ void __launch_bounds__(kThreads, kPerMultiprocessor)
    AmaxByTensorCores(const __grid_constant__ AmaxTilesArgs a,
                      const __grid_constant__ TensorMap map) {
  extern __shared__ __align__(1024) std::byte shared[];
  Shared& s = *reinterpret_cast<Shared*>(shared);
  if (threadIdx.x == 0) {
    s.rows = {0, 0};
    s.columns = {0, 0};
  }
  Ring ring(&s.ring);
  const auto count = static_cast<uint32_t>(TileCount(a.list));
  for (uint32_t k = 0; k + 1 < kStages; ++k) {
    ring.Start(k, a.list, a.first, map, blockIdx.x + k * gridDim.x);
  }
  const Rotation rotation(a.signs);
  uint32_t plain = 0;  // largest, of both halves of words
  uint32_t k = 0;
  for (uint32_t t = blockIdx.x; t < count; t += gridDim.x, ++k) {
    __syncthreads();  // the last tile has been used
    ring.Start(k + kStages - 1, a.list, a.first, map,
               t + (kStages - 1) * gridDim.x);
    // What other CTAs have found spares work here.
    uint32_t rows_found = 0;
    uint32_t columns_found = 0;
    if (threadIdx.x == 0) {
      rows_found = *const_cast<volatile uint32_t*>(&a.found->row_rht);
      columns_found = *const_cast<volatile uint32_t*>(&a.found->col_rht);
    }
    const StagedTile& tile = ring.Wait(k, true);
    if (threadIdx.x == 0) {
      atomicMax(&s.rows.found, rows_found);
      atomicMax(&s.columns.found, columns_found);
    }
    const WarpRows rows(tile);
    Known all;
    QUANTD_UNROLL
    for (int c = 0; c < kSquares; ++c) {
      all.Add<kRows, kColumns, false>(rows, c, rotation);
    }
    if (__any_sync(0xFFFFFFFFu, all.Matters<kRows, kColumns>(s))) {
      RaiseMaxima<kRows, kColumns>(a, tile, rows, rotation, &s, &plain);
    } else {
      plain = LargerOf(plain, all.plain);
    }
  }
  plain = __reduce_max_sync(0xFFFFFFFFu, LargerHalf(plain));
  if (threadIdx.x % kWarp == 0) atomicMax(&a.found->plain, plain);
}

template <bool kRows, bool kColumns>
cudaError_t Launch(const AmaxTilesArgs& a, const Queue& queue) {
  const auto kernel = &AmaxByTensorCores<kRows, kColumns>;
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(sizeof(Shared)));
  if (error != cudaSuccess) return error;
  TensorMap map;
  error = MakeTensorMap(a.first.x, a.list.rows, a.list.cols, kTileSide, 64,
                        TileLayout::kSwizzled, &map);
  if (error != cudaSuccess) return error;
  kernel<<<GridFor(TileCount(a.list), kPerMultiprocessor, queue), kThreads,
           sizeof(Shared), queue.stream>>>(a, map);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchAmaxTiles(const AmaxArgs& args, const Queue& queue) {
  AmaxTilesArgs a = {};
  a.first.x = args.x.data;
  a.first.rows = args.x.rows;
  a.list.count = 1;
  a.list.rows = args.x.rows;
  a.list.cols = args.x.cols;
  a.list.chunk_count = (args.x.rows + kTileSide - 1) / kTileSide;
  for (int i = 0; i < kBlock; ++i) a.signs[i] = args.signs[i];
  a.found = args.found;
  if (args.row_signs == nullptr) return Launch<false, true>(a, queue);
  return args.col_signs == nullptr ? Launch<true, false>(a, queue)
                                   : Launch<true, true>(a, queue);
}

}  // namespace quantd::cuda
