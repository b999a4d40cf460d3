// The rowwise copy alone: no tile is held, so a thread has 8 neighbouring
// elements of 8 rows and reads 16 bytes at a time.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FP8_ROWS_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FP8_ROWS_CUH_

#include "kernels/cuda/encode_fp8.cuh"
#include "kernels/cuda/fp8.h"

namespace quantd::cuda {

// Half a warp has 8 rows of 128 columns: a block of 128 is its own, and so is
// the word that four scales of MX are. A CTA has 4 x 4 of those.
inline constexpr int kPatchRows = 8;
inline constexpr int kPatchCols = 128;
inline constexpr int kPatches = kThreads / 16;
inline constexpr int kPatchesUp = 4;
inline constexpr int kPatchesAcross = kPatches / kPatchesUp;

inline constexpr int kCtaCols = kPatchCols * kPatchesAcross;
__host__ __device__ inline int64_t CtasAcross(const GroupList& list) {
  return (list.cols + kCtaCols - 1) / kCtaCols;
}

// What a lane has.
struct Patch {
  uint4 raw[kPatchRows];
  const GroupTask* group;
  int64_t cols;  // K
  int64_t row;   // the group's own, first
  int64_t col;   // the lane's first
  int lane;      // of 16
  int rows;      // that exist
  bool inside;
};

// Multipliers of the rows, two of which are neighbours in a word of `max`.
// Stores the scales. All lanes of the warp must call.
template <Scaling S>
__device__ __forceinline__ void SettleRows(const EncodeParams& params,
                                           const CopyTask& copy, const Patch& s,
                                           uint32_t (&max)[kPatchRows / 2],
                                           float (&m)[kPatchRows]) {
  const int64_t first = s.col - s.lane * 8;
  const int base = static_cast<int>(threadIdx.x) % 32 - s.lane;
  if constexpr (S == Scaling::kBlock) {
    // Lanes 2 * r and 2 * r + 1 are row r.
    ReduceRows<16, kPatchRows / 2>(s.lane, max);
    const int r = s.lane / 2;
    const int64_t left = s.cols - first;
    const BlockScale<Scalar> scale = SettleBlock<S>(
        params, r % 2 == 0 ? LowMagnitude(max[0]) : HighMagnitude(max[0]),
        s.group->x + 2 * ((s.row + r) * s.cols + first), 2,
        left < 128 ? left : 128);
    if (s.lane % 2 == 0 && r < s.rows && left > 0) {
      StoreGlobal(
          StoredScale<Scalar>(params, scale.stored),
          copy.scale + 4 * (s.row + r + first / 128 * copy.scale_block));
    }
    QUANTD_UNROLL
    for (int i = 0; i < kPatchRows; ++i) {
      m[i] = __shfl_sync(0xFFFFFFFFu, scale.m, base + 2 * i);
    }
  } else {
    // Lane l is rows 2 * (l % 4) and the next one of block l / 4.
    ReduceRows<4, kPatchRows / 2>(s.lane, max);
    const int64_t col = first + s.lane / 4 * 32;
    const int64_t row = s.row + s.lane % 4 * 2;
    const std::byte* const x = s.group->x + 2 * (row * s.cols + col);
    const BlockScale<Scalar> upper =
        SettleBlock<S>(params, LowMagnitude(max[0]), x, 2, 32);
    const BlockScale<Scalar> lower =
        SettleBlock<S>(params, HighMagnitude(max[0]), x + 2 * s.cols, 2, 32);
    // Powers of two are bf16.
    const uint32_t both =
        __byte_perm(__float_as_uint(upper.m), __float_as_uint(lower.m), 0x7632);
    QUANTD_UNROLL
    for (int i = 0; i < kPatchRows / 2; ++i) {
      const uint32_t two =
          __shfl_sync(0xFFFFFFFFu, both, base + (s.lane & 12) + i);
      m[2 * i] = LowBf16(two);
      m[2 * i + 1] = HighBf16(two);
    }
    // From two rows of a block to four blocks of a row.
    uint32_t codes = upper.stored | lower.stored << 8;
    uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, codes, 4);
    codes = (s.lane & 4) != 0 ? __byte_perm(other, codes, 0x0051)
                              : __byte_perm(codes, other, 0x0040);
    codes &= 0xFFFFu;
    other = __shfl_xor_sync(0xFFFFFFFFu, codes, 8);
    const int r = s.lane % 4 * 2 + (s.lane & 4) / 4;
    if ((s.lane & 8) == 0 && r < s.rows && first < s.cols) {
      // Blocks beyond the matrix are zeros with scale 0, as their padding.
      StoreGlobal(__byte_perm(codes, other, 0x5410),
                  copy.scale + ScaleIndex(copy, s.row + r, first / 32));
    }
  }
}

template <Scaling S, DType E>
__global__ void __launch_bounds__(kThreads, 3)
    EncodeRows(const __grid_constant__ EncodeArgs a) {
  // CTAs from the top to the bottom of a chunk.
  constexpr int kParts = kTileSide / (kPatchRows * kPatchesUp);
  const uint32_t across = static_cast<uint32_t>(CtasAcross(a.list));
  const uint32_t strip = blockIdx.x / across;
  const int64_t left_col = int64_t{blockIdx.x - strip * across} * kCtaCols;
  const GroupTile tile = FindChunk(a, strip / kParts);

  Patch s;
  const int patch = static_cast<int>(threadIdx.x) / 16;
  s.lane = static_cast<int>(threadIdx.x) % 16;
  s.group = tile.group;
  s.cols = a.list.cols;
  s.row = tile.row +
          (strip % kParts * kPatchesUp + patch / kPatchesAcross) * kPatchRows;
  s.col = left_col + patch % kPatchesAcross * kPatchCols + s.lane * 8;
  const int64_t left = tile.group->rows - s.row;
  s.rows = static_cast<int>(left < 0            ? 0
                            : left < kPatchRows ? left
                                                : kPatchRows);
  s.inside = s.col < s.cols;
  const int count = s.inside ? s.rows : 0;
  const int64_t first = s.row * s.cols + s.col;
  const std::byte* p = tile.group->x + 2 * first;
  QUANTD_UNROLL
  for (int i = 0; i < kPatchRows; ++i) {
    s.raw[i] = make_uint4(0, 0, 0, 0);
    if (i < count) s.raw[i] = __ldg(reinterpret_cast<const uint4*>(p));
    p += 2 * s.cols;
  }
  const CopyTask& copy = tile.group->rowwise;

  uint32_t max[kPatchRows / 2];
  uint32_t most = 0;
  QUANTD_UNROLL
  for (int i = 0; i < kPatchRows / 2; ++i) {
    const uint4 u = s.raw[2 * i];
    const uint4 v = s.raw[2 * i + 1];
    const uint32_t b = MaxOfWords(MaxOfWords(u.x, u.y), MaxOfWords(u.z, u.w));
    const uint32_t c = MaxOfWords(MaxOfWords(v.x, v.y), MaxOfWords(v.z, v.w));
    max[i] = MaxOfWords(__byte_perm(b, c, 0x5410), __byte_perm(b, c, 0x7632));
    most = MaxOfWords(most, max[i]);
  }
  if (HoldsSpecial(most)) {
    uint32_t seen = 0;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      seen |= SeenInRun(tile.group->x + 2 * (first + i * s.cols), 8);
    }
    Report(seen, a.seen);
  }
  float m[kPatchRows];
  SettleRows<S>(a.params, copy, s, max, m);
  std::byte* to = copy.data + first;
  QUANTD_UNROLL
  for (int i = 0; i < kPatchRows; ++i) {
    const uint4 r = s.raw[i];
    const uint32_t low = CodesOf<E>(LowBf16(r.x) * m[i], HighBf16(r.x) * m[i],
                                    LowBf16(r.y) * m[i], HighBf16(r.y) * m[i]);
    const uint32_t high = CodesOf<E>(LowBf16(r.z) * m[i], HighBf16(r.z) * m[i],
                                     LowBf16(r.w) * m[i], HighBf16(r.w) * m[i]);
    if (i < count) StoreGlobal(make_uint2(low, high), to);
    to += s.cols;
  }
}

// Formats with blocks.
template <Scaling S, DType E>
cudaError_t LaunchBlocks(const EncodeArgs& a, const Queue& queue) {
  if (a.first.columnwise.data != nullptr || a.dbias) {
    return LaunchTiles<S, E>(a, queue);
  }
  constexpr int kParts = kTileSide / (kPatchRows * kPatchesUp);
  const int64_t ctas = a.list.chunk_count * kParts * CtasAcross(a.list);
  EncodeRows<S, E>
      <<<static_cast<unsigned>(ctas), kThreads, 0, queue.stream>>>(a);
  return cudaGetLastError();
}
template <Scaling S>
cudaError_t LaunchEncodeFp8Of(const EncodeArgs& a, const Queue& queue) {
  return a.params.element == DType::kE4M3
             ? LaunchBlocks<S, DType::kE4M3>(a, queue)
             : LaunchBlocks<S, DType::kE5M2>(a, queue);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FP8_ROWS_CUH_
