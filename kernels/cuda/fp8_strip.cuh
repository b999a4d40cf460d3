// A tile of a group in the registers of a CTA, and what is rare in it: NaN and
// Inf, for which the elements are read again.
#ifndef QUANTD_KERNELS_CUDA_FP8_STRIP_CUH_
#define QUANTD_KERNELS_CUDA_FP8_STRIP_CUH_

#include "kernels/cuda/fp8_words.cuh"
#include "kernels/cuda/span.cuh"

namespace quantd::cuda {

inline constexpr int kTileThreads = 128;
inline constexpr int kTileWarps = kTileThreads / 32;
inline constexpr int kStripRows = kTileSide / kTileWarps;
inline constexpr int kLaneCols = kTileSide / 32;
static_assert(kStripRows == 32 && kLaneCols == 4);

// FindTile of the first tile of a chunk of rows, for whole warps: a look at the
// groups costs log32 of their number.
__device__ __forceinline__ GroupTile FindChunk(const EncodeArgs& a,
                                               int64_t chunk) {
  const GroupList& list = a.list;
  if (list.count == 1) return {&a.first, 0, chunk * kTileSide, 0};
  const int64_t lane = threadIdx.x % 32;
  int64_t first = 0;
  int64_t end = list.count;
  while (end - first > 1) {
    const int64_t step = (end - first + 31) / 32;
    const int64_t i = first + lane * step;
    const bool reached = i < end && list.chunks[i] <= chunk;
    const int count =
        32 - __clz(static_cast<int>(__ballot_sync(0xFFFFFFFFu, reached)));
    first += (count - 1) * step;
    if (end > first + step) end = first + step;
  }
  const int64_t start = first == 0 ? 0 : list.chunks[first];
  return {list.groups + first, first, (chunk - start) * kTileSide, 0};
}

// What a lane has of its tile.
struct Strip {
  uint2 raw[kStripRows];  // 4 columns of each row
  const GroupTask* group;
  int64_t cols;  // K
  int64_t row;   // the group's own
  int64_t col;
  int warp;
  int lane;
  int rows;  // of the warp's 32 that exist
  bool inside;

  // Where its first element is, in bytes of that many columns.
  __device__ int64_t Offset(int64_t columns) const {
    return row * columns + col;
  }
};

// `kFull`: all of the tile is there.
template <bool kFull>
__device__ __forceinline__ Strip LoadStrip(const GroupTile& tile,
                                           int64_t cols) {
  Strip s;
  s.group = tile.group;
  s.cols = cols;
  s.warp = static_cast<int>(threadIdx.x) / 32;
  s.lane = static_cast<int>(threadIdx.x) % 32;
  s.row = tile.row + s.warp * kStripRows;
  s.col = tile.col + s.lane * kLaneCols;
  const int64_t left = kFull ? 32 : tile.group->rows - s.row;
  s.rows = static_cast<int>(left < 0 ? 0 : left < 32 ? left : 32);
  s.inside = kFull || s.col < cols;
  const int count = s.inside ? s.rows : 0;
  const std::byte* p = tile.group->x + 2 * s.Offset(cols);
  QUANTD_UNROLL
  for (int r = 0; r < kStripRows; ++r) {
    s.raw[r] = make_uint2(0, 0);
    if (r < count) s.raw[r] = __ldg(reinterpret_cast<const uint2*>(p));
    p += 2 * cols;
  }
  return s;
}

// --- what is rare -----------------------------------------------------------

// The largest magnitude of `count` elements, `step` bytes apart, NaN dropped.
__device__ __forceinline__ uint32_t CleanMax(const std::byte* p, int64_t step,
                                             int64_t count) {
  uint32_t clean = 0;
#pragma unroll 1
  for (int64_t i = 0; i < count; ++i) {
    const float v = DecodeElement<DType::kBF16>(LoadBits<DType::kBF16>(p));
    uint32_t max, number;
    Maxima<Scalar>(&v, 1, &max, &number);
    clean = Scalar::Max(clean, number);
    p += step;
  }
  return clean;
}

// Seen bits of `count` elements one after the other.
__device__ __forceinline__ uint32_t SeenInRun(const std::byte* p, int count) {
  uint32_t seen = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const float v =
        DecodeElement<DType::kBF16>(LoadBits<DType::kBF16>(p + 2 * i));
    uint32_t max, clean;
    Maxima<Scalar>(&v, 1, &max, &clean);
    seen |= SeenIn(max, clean);
  }
  return seen;
}

// Seen bits of a lane's elements, whose largest magnitudes are `max`.
__device__ __forceinline__ uint32_t SeenInStrip(const Strip& s, uint32_t max) {
  if (!HoldsSpecial(max)) return 0;
  uint32_t seen = 0;
#pragma unroll 1
  for (int r = 0; r < s.rows; ++r) {
    seen |=
        SeenInRun(s.group->x + 2 * (s.Offset(s.cols) + r * s.cols), kLaneCols);
  }
  return seen;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_FP8_STRIP_CUH_
