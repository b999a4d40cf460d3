// Maxima of bf16 matrices, plain and rotated both ways, from one read.
//
// Rotations go through the tensor cores, whose sums are not the ones that count
// (kernels/FORMATS.md fixes the order of additions). But they are near enough
// to tell which blocks cannot raise the maximum found so far, and those are
// nearly all. The others are rotated again, in order.
//
// How near: with M the largest magnitude of a rotated block and x the block,
// |x_i| / 4 <= norm(x) / 4 <= M, for the rotation keeps the norm. The product
// drops at most 2^-22 of its largest term from each of 16 terms: 2^-18 M. In
// the butterfly each of four stages rounds sums of at most 4 M by 2^-24: 2^-20
// M. kMargin is much more than both.
#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/staged_tile.cuh"

namespace quantd::cuda {
namespace {

constexpr int kStages = 3;
constexpr int kPerMultiprocessor = 2;
constexpr float kMargin = 1.0f + 0x1p-14f;
// Below it the tensor cores are not asked.
constexpr uint32_t kTiny = 0x0D000000u;  // 2^-101

struct AmaxTilesArgs {
  GroupList list;  // one group
  GroupTask first;
  float signs[kBlock];
  Found* found;
};

using Ring = TileRing<kStages, TileLayout::kSwizzled>;

struct Shared {
  Ring::Storage ring;
  uint32_t best[2];  // rotated maxima so far, rounded to bf16: rows, columns
};

// The matrix of the rotation as two operands of the tensor cores: 16 rows and
// eight columns each.
struct Rotation {
  uint32_t words[2][2];

  __device__ __forceinline__ explicit Rotation(const float (&signs)[kBlock]) {
    const int group = threadIdx.x % 32 / 4;
    const int first = threadIdx.x % 4 * 2;
    QUANTD_UNROLL
    for (int n = 0; n < 2; ++n) {
      QUANTD_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int k = first + 8 * half;
        const int j = group + 8 * n;
        words[n][half] = PackBf16(Entry(signs, k, j), Entry(signs, k + 1, j));
      }
    }
  }
  static __device__ __forceinline__ float Entry(const float (&signs)[kBlock],
                                                int k, int j) {
    float sign = 0.0f;
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) sign = i == k ? signs[i] : sign;
    return __popc(k & j) % 2 == 0 ? sign : -sign;
  }
};

// Four 8 x 8 pieces of 16-bit elements from shared memory, `address` being
// that of one row; transposed, or as they are.
template <bool kTransposed>
__device__ __forceinline__ void LoadSquare(uint32_t address, uint32_t (&w)[4]) {
  if constexpr (kTransposed) {
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
        : "r"(address));
  } else {
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
        : "r"(address));
  }
}

// Largest magnitude of this lane's elements of the rotated square, about.
__device__ __forceinline__ float RotatedMaximum(const uint32_t (&x)[4],
                                                const Rotation& rotation) {
  float y[2][4];
  QUANTD_UNROLL
  for (int n = 0; n < 2; ++n) {
    Multiply<DType::kBF16>(x, rotation.words[n][0], rotation.words[n][1], y[n]);
  }
  float max = fmaxf(fabsf(y[0][0]), fabsf(y[0][1]));
  max = fmaxf(max, fabsf(y[0][2]));
  max = fmaxf(max, fabsf(y[0][3]));
  QUANTD_UNROLL
  for (int i = 0; i < 4; ++i) max = fmaxf(max, fabsf(y[1][i]));
  return max;
}

// What a square's maximum has to exceed to matter, given the best one so far:
// half way to the next bf16, less the margin.
__device__ __forceinline__ float ThresholdOf(uint32_t best) {
  return __uint_as_float(best | 0x8000u) / kMargin;
}

// One square in order: a lane is a row, or a column.
__device__ __noinline__ void MaximumInOrder(const StagedTile& tile, int row,
                                            int col, bool rows, bool columns,
                                            const float* signs, uint32_t* best,
                                            Found* found) {
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
    if (atomicMax(&best[0], row_max) < row_max) {
      atomicMax(&found->row_rht, row_max);
    }
    if (atomicMax(&best[1], col_max) < col_max) {
      atomicMax(&found->col_rht, col_max);
    }
  }
  __syncwarp();
}

template <bool kRows, bool kColumns>
__global__ void __launch_bounds__(kThreads, kPerMultiprocessor)
    AmaxByTensorCores(const __grid_constant__ AmaxTilesArgs a,
                      const __grid_constant__ TensorMap map) {
  extern __shared__ __align__(1024) std::byte shared[];
  Shared& s = *reinterpret_cast<Shared*>(shared);
  if (threadIdx.x < 2) s.best[threadIdx.x] = 0;
  Ring ring(&s.ring);
  const Rotation rotation(a.signs);
  const auto count = static_cast<uint32_t>(TileCount(a.list));
  for (uint32_t k = 0; k + 1 < kStages; ++k) {
    ring.Start(k, a.list, a.first, map, blockIdx.x + k * gridDim.x);
  }
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Rows of the pieces that this lane names: of a square as it is, and turned.
  const int half = lane / 8 % 2 * 8;
  const int other = lane / 16 * 8;
  const uint32_t plain_at =
      SwizzledOffset(warp * kBlock + half + lane % 8, other);
  const uint32_t turned_at =
      SwizzledOffset(warp * kBlock + other + lane % 8, half);
  uint32_t largest = 0;  // of both halves of words
  uint32_t k = 0;
  for (uint32_t t = blockIdx.x; t < count; t += gridDim.x, ++k) {
    __syncthreads();  // the last tile has been used
    ring.Start(k + kStages - 1, a.list, a.first, map,
               t + (kStages - 1) * gridDim.x);
    // What other CTAs have found spares work here.
    if (threadIdx.x == 0) {
      atomicMax(&s.best[0], *const_cast<volatile uint32_t*>(&a.found->row_rht));
      atomicMax(&s.best[1], *const_cast<volatile uint32_t*>(&a.found->col_rht));
    }
    const StagedTile& tile = ring.Wait(k, true);
    const auto base =
        static_cast<uint32_t>(__cvta_generic_to_shared(tile.bytes));
    volatile uint32_t* const best = s.best;
    uint32_t row_best = best[0];
    uint32_t col_best = best[1];
    float row_threshold = ThresholdOf(row_best);
    float col_threshold = ThresholdOf(col_best);
    QUANTD_UNROLL
    for (int c = 0; c < kTileSide / kBlock; ++c) {
      // Two pieces of 16 bytes further, within 128 bytes of 64 columns.
      const uint32_t piece = c % 4 * 32;
      const uint32_t box = c / 4 * kSwizzledBox;
      uint32_t x[4];
      LoadSquare<false>(base + (plain_at ^ piece) + box, x);
      const uint32_t of_square = LargestOf(x);
      // (Whatever holds NaN or Inf is counted in order.)
      bool matters = LargerHalf(of_square) >= kInfBits;
      if (!matters) largest = LargerOf(largest, of_square);
      if constexpr (kRows) {
        matters |= row_best < kTiny
                       ? of_square != 0
                       : RotatedMaximum(x, rotation) > row_threshold;
      }
      if constexpr (kColumns) {
        uint32_t turned[4];
        LoadSquare<true>(base + (turned_at ^ piece) + box, turned);
        matters |= col_best < kTiny
                       ? of_square != 0
                       : RotatedMaximum(turned, rotation) > col_threshold;
      }
      if (__any_sync(0xFFFFFFFFu, matters)) {
        MaximumInOrder(tile, warp * kBlock, c * kBlock, kRows, kColumns,
                       a.signs, s.best, a.found);
        row_best = best[0];
        col_best = best[1];
        row_threshold = ThresholdOf(row_best);
        col_threshold = ThresholdOf(col_best);
      }
    }
  }
  const uint32_t plain = __reduce_max_sync(0xFFFFFFFFu, LargerHalf(largest));
  if (lane == 0) atomicMax(&a.found->plain, plain);
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
