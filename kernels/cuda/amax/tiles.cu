// Finds the maximum of a bf16 matrix, and those of its rotated rows and
// columns, in one read.
//
// No element of a rotated block is larger than a quarter of the sum of the
// block's magnitudes. Tensor cores compute these sums. For nearly all blocks
// this bound shows that the block cannot raise the maximum found so far.
// Otherwise tensor cores rotate the block. They add in a different order than
// the normative one (kernels/plan/FORMATS.md), but the result is so close that
// it nearly always rounds to the same bf16. If it could round to either of two
// bf16, the block is rotated in the normative order.
//
// The errors: let x be a block and M the largest magnitude after its rotation.
// |x_i| / 4 <= norm(x) / 4 <= M, because a rotation keeps the norm. Tensor
// cores lose at most 2^-22 of the largest term from each of 16 terms, in all
// 2^-18 M. Each of the butterfly's four stages rounds sums of at most 4 M with
// a relative error of 2^-24, in all 2^-20 M. kMargin is much larger than both.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx/fragments.cuh"
#include "kernels/cuda/ptx/next_kernel.cuh"
#include "kernels/cuda/tile/packed.cuh"
#include "kernels/cuda/tile/rotate.cuh"
#include "kernels/cuda/tile/stream.cuh"

namespace quantd::cuda {
namespace {

constexpr float kMargin = 0x1p-14f;
// Rotations by tensor cores are exact enough only for squares whose largest
// magnitude is at least kTiny and below kHuge. If it is below kTiny, the
// rotated elements stay below kMostTiny.
constexpr uint32_t kTiny = 0x0E000000u;      // 2^-99
constexpr uint32_t kHuge = 0x7B800000u;      // 2^120
constexpr uint32_t kMostTiny = 0x0F800000u;  // 2^-96

struct AmaxTilesArgs {
  GroupList list;  // one group
  GroupTask first;
  float signs[kBlock];
  Found* found;
};

// The maxima that a CTA knows, rounded to bf16, as fp32 bits. All warps read
// and raise them in shared memory.
struct KnownMaxima {
  uint32_t rows;
  uint32_t columns;
  uint32_t plain;       // maximum of the warps that have ended
  uint32_t warps_done;  // number of warps that have ended
};
template <SharedMemory kSize>
struct Shared {
  using Stream = BySize<kSize, TileStream<3, 6, 1>, TileStream<2, 4, 1>,
                        TileStream<1, 3, 1>>;
  typename Stream::Tiles tiles;
  typename Stream::Control control;
  KnownMaxima maxima;

  __device__ __forceinline__ void Begin() {
    if (threadIdx.x == 0) maxima = {};
  }
};

// Returns the larger of `max` and this lane's magnitudes in a rotated square,
// approximately.
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

// Rounds x to bf16 and returns fp32 bits. x is finite and not negative.
__device__ __forceinline__ uint32_t Rounded(float x) {
  return PackBf16(x, 0.0f) << 16;
}

// Returns the largest bf16 to which an element can round if its magnitude is
// approximately `about`.
__device__ __forceinline__ uint32_t AtMost(float about) {
  return Rounded(about * (1.0f + kMargin));
}
// Reads shared memory that other warps write.
__device__ __forceinline__ uint32_t Read(const volatile uint32_t& known) {
  return known;
}
// Raises the CTA's maximum `*known`, and then the device's `*found`, to the
// largest `mine` of a warp. All lanes must call this.
__device__ __forceinline__ void Raise(uint32_t mine, uint32_t* known,
                                      uint32_t* found) {
  const uint32_t max = __reduce_max_sync(0xFFFFFFFFu, mine);
  if (threadIdx.x % kWarp == 0 && max > Read(*known) &&
      atomicMax(known, max) < max) {
    atomicMax(found, max);
  }
}

// Raises the maxima to those of one square, which is rotated in the normative
// order. Each lane takes a row or a column.
__device__ __noinline__ void MaximumInOrder(const StagedTile& tile, int row,
                                            int col, bool rows, bool columns,
                                            const float* signs,
                                            KnownMaxima* known, Found* found) {
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
      const std::byte* p = tile.bytes + TileOffset(r, c);
      v[i] = DecodeBf16<Scalar>(*reinterpret_cast<const uint16_t*>(p));
    }
    uint32_t all;
    FindMaxima<Scalar>(v, kBlock, &all, &plain);
    seen |= SeenIn(all, plain);
    if (column || rows) {
      max = RotateToBf16<Scalar, true>(v, signs);
      if (max > kInfBits) {
        seen |= column ? kSeenColRhtNan : kSeenRowRhtNan;
        max = MaxNumber<Scalar>(v);
      }
    }
  }
  plain = __reduce_max_sync(0xFFFFFFFFu, plain);
  Report(seen, found);
  if (lane == 0) atomicMax(&found->plain, plain);
  Raise(column ? 0 : max, &known->rows, &found->row_rht);
  Raise(column ? max : 0, &known->columns, &found->col_rht);
  __syncwarp();
}

// Addresses of the squares in a warp's sixteen rows of a tile.
struct WarpRows {
  uint32_t plain;   // shared address of this lane's row of fragments
  uint32_t turned;  // the same for a transposed square

  __device__ __forceinline__ explicit WarpRows(const StagedTile& tile) {
    const int row = static_cast<int>(Team::warp() * kBlock);
    const int lane = static_cast<int>(threadIdx.x % kWarp);
    const int half = lane / 8 % 2 * 8;
    const int other = lane / 16 * 8;
    const uint32_t base = SharedAddress(tile.bytes);
    plain = base + TileOffset(row + half + lane % 8, other);
    turned = base + TileOffset(row + other + lane % 8, half);
  }
  // The address for square c; `first` is for square 0. A square is two pieces
  // of 16 bytes wide. A box of the tile holds four squares.
  static __device__ __forceinline__ uint32_t At(uint32_t first, int c) {
    return (first ^ c % 4 * 32) + c / 4 * kTileBox;
  }
};

// This lane's maxima of squares: magnitudes in each half of a word, with NaN
// above Inf, and bounds for the rotated rows and columns.
struct Known {
  uint32_t plain = 0;
  float row = 0.0f;
  float col = 0.0f;

  // Adds square c. The bounds are sums of magnitudes or, with kRotated, the
  // rotated values themselves.
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
  // Returns whether the squares may raise a maximum, according to the bounds,
  // or are too large for tensor cores.
  template <bool kRows, bool kColumns>
  __device__ __forceinline__ bool Matters(const KnownMaxima& known) const {
    const uint32_t magnitude = LargerHalf(plain);
    bool matters = magnitude >= kHuge;
    const auto compare = [&](uint32_t found, float about) {
      matters |= found < kMostTiny ? magnitude != 0 : AtMost(about) > found;
    };
    if constexpr (kRows) compare(Read(known.rows), row);
    if constexpr (kColumns) compare(Read(known.columns), col);
    return matters;
  }

 private:
  static __device__ __forceinline__ void Magnitudes(const uint32_t (&x)[4],
                                                    uint32_t (&magnitudes)[4]) {
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) magnitudes[i] = x[i] & 0x7FFF7FFFu;
  }
  // The larger of `max` and a quarter of the blocks' sums of magnitudes.
  static __device__ __forceinline__ float QuarterSum(
      const uint32_t (&magnitudes)[4], float max) {
    constexpr uint32_t kQuarters = 0x3E803E80u;
    float sums[4];  // two of them are duplicates
    Multiply<DType::kBF16>(magnitudes, kQuarters, kQuarters, sums);
    return fmaxf(max, fmaxf(sums[0], sums[2]));
  }
};

// The largest of a warp's numbers, which must not be negative.
__device__ __forceinline__ float LargestOfWarp(float x) {
  return __uint_as_float(__reduce_max_sync(0xFFFFFFFFu, __float_as_uint(x)));
}

// The bf16 that an element of about this magnitude rounds to, or 0 if it could
// be either of two.
__device__ __forceinline__ uint32_t Sure(float about) {
  const uint32_t most = AtMost(about);
  return Rounded(about * (1.0f - kMargin)) == most ? most : 0;
}

// Rotates all squares of a warp's rows with tensor cores and raises the maxima.
// Returns whether these squares are known not to raise the maxima any further.
// False if a maximum can round to either of two bf16, is tiny or is too large.
template <bool kRows, bool kColumns>
__device__ __forceinline__ bool RaiseTogether(const AmaxTilesArgs& a,
                                              const WarpRows& rows,
                                              const Rotation& rotation,
                                              KnownMaxima* known,
                                              uint32_t* plain) {
  Known all;
#pragma unroll 2
  for (int c = 0; c < kSquares; ++c) {
    all.Add<kRows, kColumns, true>(rows, c, rotation);
  }
  const uint32_t magnitude =
      __reduce_max_sync(0xFFFFFFFFu, LargerHalf(all.plain));
  if (magnitude >= kHuge) return false;
  bool enough = true;
  const auto raise = [&](float mine, uint32_t* of, uint32_t* found) {
    const float about = LargestOfWarp(mine);
    // (Tiny maxima are left out: they are inexact and could be raised too far.)
    const uint32_t sure = Sure(about);
    Raise(sure >= kMostTiny ? sure : 0, of, found);
    __syncwarp();
    // (It does not matter which warp has raised the maximum far enough.)
    const uint32_t now = __shfl_sync(0xFFFFFFFFu, Read(*of), 0);
    enough = enough && now >= kMostTiny && AtMost(about) <= now;
  };
  if constexpr (kRows) raise(all.row, &known->rows, &a.found->row_rht);
  if constexpr (kColumns) raise(all.col, &known->columns, &a.found->col_rht);
  if (enough) *plain = LargerOf(*plain, all.plain);
  return enough;
}

// Raises the maxima square by square, with tensor cores or, if their result is
// not exact enough, in the normative order. Adds the magnitudes of squares
// without Inf and NaN to `*plain`.
template <bool kRows, bool kColumns>
__device__ __forceinline__ void RaiseBySquare(
    const AmaxTilesArgs& a, const StagedTile& tile, const WarpRows& rows,
    const Rotation& rotation, KnownMaxima* known, uint32_t* plain) {
  const uint32_t lane = threadIdx.x % kWarp;
  uint32_t order = 0;  // squares to rotate in order, as bits
  uint32_t done = 0;
  uint32_t tiny = 0;
  float row = 0.0f;  // lane c has the maximum of square c
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
  const uint32_t rows_most = AtMost(row);
  const uint32_t columns_most = AtMost(col);
  if constexpr (kRows) Raise(Sure(row), &known->rows, &a.found->row_rht);
  if constexpr (kColumns) {
    Raise(Sure(col), &known->columns, &a.found->col_rht);
  }
  __syncwarp();
  const auto may_raise = [&] {
    return (kRows && rows_most > Read(known->rows)) ||
           (kColumns && columns_most > Read(known->columns));
  };
  const bool tiny_may = (kRows && Read(known->rows) < kMostTiny) ||
                        (kColumns && Read(known->columns) < kMostTiny);
  if (__any_sync(0xFFFFFFFFu, tiny_may)) order |= tiny;
  while (true) {
    // (The last candidate may have made others unnecessary.)
    const uint32_t candidates = __ballot_sync(0xFFFFFFFFu, may_raise());
    const uint32_t left = (candidates & ~done) | order;
    if (left == 0) break;
    const int c = __ffs(static_cast<int>(left)) - 1;
    MaximumInOrder(tile, static_cast<int>(Team::warp() * kBlock), c * kBlock,
                   kRows, kColumns, a.signs, known, a.found);
    order &= ~(1u << c);
    done |= 1u << c;
  }
}

template <SharedMemory kSize, bool kRows, bool kColumns>
__global__ void __launch_bounds__(Shared<kSize>::Stream::kCtaThreads, 1)
    AmaxByTensorCores(const __grid_constant__ AmaxTilesArgs a,
                      const __grid_constant__
                      typename Shared<kSize>::Stream::Source source) {
  RunTileStream<kSize, Shared<kSize>>(
      a, source, [&](Shared<kSize>& s, auto& stream) {
        const Rotation rotation(a.signs);
        uint32_t plain = 0;  // largest magnitude in each half of a word
        while (true) {
          // Reads the maxima of all CTAs, which saves work.
          uint32_t rows_found = 0;
          uint32_t columns_found = 0;
          if (Team::thread() == 0) {
            rows_found = *const_cast<volatile uint32_t*>(&a.found->row_rht);
            columns_found = *const_cast<volatile uint32_t*>(&a.found->col_rht);
          }
          if (!stream.Receive(true)) break;
          if (Team::thread() == 0) {
            atomicMax(&s.maxima.rows, rows_found);
            atomicMax(&s.maxima.columns, columns_found);
          }
          const WarpRows rows(stream.tile());
          Known all;
          QUANTD_UNROLL
          for (int c = 0; c < kSquares; ++c) {
            all.Add<kRows, kColumns, false>(rows, c, rotation);
          }
          if (!__any_sync(0xFFFFFFFFu,
                          all.Matters<kRows, kColumns>(s.maxima))) {
            plain = LargerOf(plain, all.plain);
          } else if (!RaiseTogether<kRows, kColumns>(a, rows, rotation,
                                                     &s.maxima, &plain)) {
            RaiseBySquare<kRows, kColumns>(a, stream.tile(), rows, rotation,
                                           &s.maxima, &plain);
          }
          stream.Release();
        }
        plain = __reduce_max_sync(0xFFFFFFFFu, LargerHalf(plain));
        if (threadIdx.x % kWarp != 0) return;
        // Uses one atomic for each CTA: atomics of thousands of warps on one
        // address would queue up.
        atomicMax(&s.maxima.plain, plain);
        __threadfence_block();
        constexpr uint32_t kWarps =
            Shared<kSize>::Stream::kTeams * Team::kWarps;
        if (atomicAdd(&s.maxima.warps_done, 1) == kWarps - 1) {
          atomicMax(&a.found->plain, Read(s.maxima.plain));
        }
      });
}

template <bool kRows, bool kColumns>
cudaError_t Launch(const AmaxTilesArgs& a, const Queue& queue) {
  return ForSharedMemory(queue, [&](auto size) {
    return LaunchTileStream<size(), Shared<size()>>(
        &AmaxByTensorCores<size(), kRows, kColumns>, a, queue);
  });
}

}  // namespace

cudaError_t LaunchAmaxByTensorCores(const AmaxArgs& args, const Queue& queue) {
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
