// Holds a tile of a group in the registers of a CTA. NaN and Inf, which are
// rare, are found by reading the elements again.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FP8_STRIP_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FP8_STRIP_CUH_

#include "kernels/cuda/ptx/fp8_words.cuh"
#include "kernels/cuda/tile/span.cuh"

namespace quantd::cuda {

inline constexpr int kTileThreads = 128;
inline constexpr int kTileWarps = kTileThreads / 32;
inline constexpr int kLaneCols = kTileSide / 32;
static_assert(kStripRows == kTileSide / kTileWarps && kLaneCols == 4);

// The index of the last of `count` entries with start(i) <= value, or 0. Skips
// entries that start where the next one starts. All lanes of a warp must pass
// the same arguments. They search together, in log32(count) steps.
template <typename Start>
__device__ __forceinline__ int64_t FindByWarp(int64_t count, int64_t value,
                                              const Start& start) {
  const int64_t lane = threadIdx.x % 32;
  int64_t first = 0;
  int64_t end = count;
  while (end - first > 1) {
    const int64_t step = (end - first + 31) / 32;
    const int64_t i = first + lane * step;
    const bool reached = i < end && start(i) <= value;
    const int below = __popc(__ballot_sync(0xFFFFFFFFu, reached));
    first += (below - 1) * step;
    if (end > first + step) end = first + step;
  }
  return first;
}

// Finds the first row of chunk `i` or, for kStripRows, of strip `i`. All lanes
// of a warp must pass the same `i`.
template <int kRows>
__device__ __forceinline__ GroupTile FindRows(const EncodeArgs& a, int64_t i) {
  static_assert(kRows == kTileSide || kRows == kStripRows);
  const GroupList& list = a.list;
  if (list.count == 1) return {&a.first, 0, i * kRows, 0};
  const int64_t* const starts = kRows == kTileSide ? list.chunks : list.strips;
  const int64_t g =
      FindByWarp(list.count, i, [&](int64_t j) { return starts[j]; });
  return {list.groups + g, g, (i - starts[g]) * kRows, 0};
}

// Finds the group of a row of the payload. Returns any group for a row beyond
// the payload. `near`, the same in all lanes of a warp, is a row that is likely
// in the same group.
__device__ __forceinline__ const GroupTask& GroupOfRow(const EncodeArgs& a,
                                                       int64_t near,
                                                       int64_t row) {
  const GroupList& list = a.list;
  if (list.count == 1) return a.first;
  int64_t g = FindByWarp(list.count, near,
                         [&](int64_t i) { return list.groups[i].row; });
  int64_t end = list.count;
  if (row < list.groups[g].row + list.groups[g].rows) return list.groups[g];
  while (end - g > 1) {
    const int64_t middle = g + (end - g) / 2;
    if (list.groups[middle].row <= row) {
      g = middle;
    } else {
      end = middle;
    }
  }
  return list.groups[g];
}

// The number of CTAs side by side, each with `cols` columns.
__host__ __device__ inline uint32_t CtasAcross(const GroupList& list,
                                               int cols) {
  return static_cast<uint32_t>((list.cols + cols - 1) / cols);
}

// The part of a tile of elements of type D that a lane holds.
template <DType D>
struct Strip {
  uint2 raw[kStripRows];  // 4 columns of each row
  const GroupTask* group;
  int64_t cols;  // K
  int64_t row;   // within the group
  int64_t col;
  int warp;  // index of the warp in the tile
  int lane;
  int rows;  // rows of the warp's 32 that exist
  bool inside;

  // The offset of the lane's first element, in elements, if a row has `columns`
  // elements.
  __device__ int64_t Offset(int64_t columns) const {
    return row * columns + col;
  }
};

// Loads the strip at (row, col) of the group. `warp` is the index of this warp.
// kFull says that all rows and columns of the strip exist.
template <DType D, bool kFull>
__device__ __forceinline__ Strip<D> LoadStrip(const GroupTask* group,
                                              int64_t cols, int64_t row,
                                              int64_t col, int warp) {
  Strip<D> s;
  s.group = group;
  s.cols = cols;
  s.warp = warp;
  s.lane = static_cast<int>(threadIdx.x) % 32;
  s.row = row;
  s.col = col + s.lane * kLaneCols;
  const int64_t left = kFull ? 32 : group->rows - s.row;
  s.rows = static_cast<int>(left < 0 ? 0 : left < 32 ? left : 32);
  s.inside = kFull || s.col < cols;
  const int count = s.inside ? s.rows : 0;
  const std::byte* p = group->x + 2 * s.Offset(cols);
  QUANTD_UNROLL
  for (int r = 0; r < kStripRows; ++r) {
    s.raw[r] = make_uint2(0, 0);
    if (r < count) s.raw[r] = __ldg(reinterpret_cast<const uint2*>(p));
    p += 2 * cols;
  }
  return s;
}

// --- NaN and Inf ------------------------------------------------------------

// Finds the largest magnitude of `count` elements, `step` bytes apart. Ignores
// NaN.
template <DType D>
__device__ __forceinline__ uint32_t CleanMax(const std::byte* p, int64_t step,
                                             int64_t count) {
  uint32_t clean = 0;
#pragma unroll 1
  for (int64_t i = 0; i < count; ++i) {
    const float v = DecodeElement<D>(LoadBits<D>(p));
    uint32_t max, number;
    FindMaxima<Scalar>(&v, 1, &max, &number);
    clean = Scalar::Max(clean, number);
    p += step;
  }
  return clean;
}

// Finds the Seen bits of `count` neighbouring elements.
template <DType D>
__device__ __forceinline__ uint32_t SeenInRun(const std::byte* p, int count) {
  uint32_t seen = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const float v = DecodeElement<D>(LoadBits<D>(p + 2 * i));
    uint32_t max, clean;
    FindMaxima<Scalar>(&v, 1, &max, &clean);
    seen |= SeenIn(max, clean);
  }
  return seen;
}

// Finds the Seen bits of a lane's elements, whose largest magnitudes are `max`.
template <DType D>
__device__ __forceinline__ uint32_t SeenInStrip(const Strip<D>& s,
                                                uint32_t max) {
  if (!HoldsSpecial<D>(max)) return 0;
  uint32_t seen = 0;
#pragma unroll 1
  for (int r = 0; r < s.rows; ++r) {
    seen |= SeenInRun<D>(s.group->x + 2 * (s.Offset(s.cols) + r * s.cols),
                         kLaneCols);
  }
  return seen;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FP8_STRIP_CUH_
