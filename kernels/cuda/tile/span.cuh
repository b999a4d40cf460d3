// Tiles of groups, and spans of tiles. A span is N consecutive positions of a
// line, which is a row or a column of the matrix.
#ifndef QUANTD_KERNELS_CUDA_TILE_SPAN_CUH_
#define QUANTD_KERNELS_CUDA_TILE_SPAN_CUH_

#include <type_traits>

#include "kernels/cuda/args.h"
#include "kernels/cuda/tile/element.cuh"

namespace quantd::cuda {

// The number of tiles side by side, and of all tiles.
__host__ __device__ inline int64_t TilesAcross(const GroupList& list) {
  return (list.cols + kTileSide - 1) / kTileSide;
}
__host__ __device__ inline int64_t TileCount(const GroupList& list) {
  return list.chunk_count * TilesAcross(list);
}

// The index of the last entry of `starts` that is not above `value`. `value`
// must be at least starts[0] and below starts[count]. Skips empty groups, whose
// start is that of the next group.
__device__ __forceinline__ int64_t FindEntry(const int64_t* starts,
                                             int64_t count, int64_t value) {
  int64_t first = 0;
  int64_t end = count;
  while (end - first > 1) {
    const int64_t middle = first + (end - first) / 2;
    if (starts[middle] <= value) {
      first = middle;
    } else {
      end = middle;
    }
  }
  return first;
}

// A tile and its group. `row` and `col` count from the start of the group.
struct GroupTile {
  const GroupTask* group;
  int64_t number;  // index of the group
  int64_t row;
  int64_t col;
};
__device__ __forceinline__ GroupTile FindTile(const GroupList& list,
                                              int64_t tile) {
  const int64_t across = TilesAcross(list);
  const int64_t chunk = tile / across;
  const int64_t g = FindEntry(list.chunks, list.count, chunk);
  return {list.groups + g, g, (chunk - list.chunks[g]) * kTileSide,
          (tile - chunk * across) * kTileSide};
}

// Span `i` of a tile: its line and first position. Consecutive columnwise spans
// are neighbours in memory, so that a warp's accesses are contiguous.
template <int N>
struct TileSpan {
  static constexpr int kPerLine = kTileSide / N;
  static constexpr int kCount = kTileSide * kPerLine;
  int line;
  int position;

  __device__ TileSpan(bool columnwise, int i)
      : line(columnwise ? i % kTileSide : i / kPerLine),
        position((columnwise ? i / kTileSide : i % kPerLine) * N) {}
};

template <int N>
__device__ __forceinline__ float (&BlockOf(float (&v)[N], int i))[kBlock] {
  return *reinterpret_cast<float(*)[kBlock]>(v + i * kBlock);
}

__device__ __forceinline__ bool IsAligned(const std::byte* p) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

// Loads N positions of a line of a group, from position `at` on. Positions
// beyond the matrix are +0.
template <DType D, int N>
__device__ __forceinline__ void LoadSpan(const GroupTask& group, int64_t cols,
                                         bool columnwise, int64_t line,
                                         int64_t at, float (&v)[N]) {
  if (columnwise) {
    const int64_t count = line < cols ? group.rows - at : 0;
    const std::byte* p = group.x + (at * cols + line) * kSizeOf<D>;
#pragma unroll 16
    for (int i = 0; i < N; ++i) {
      v[i] = i < count ? DecodeElement<D>(LoadBits<D>(p)) : 0.0f;
      p += cols * kSizeOf<D>;
    }
    return;
  }
  const int64_t count = line < group.rows ? cols - at : 0;
  const std::byte* p = group.x + (line * cols + at) * kSizeOf<D>;
  for (int i = 0; i < N / kBlock; ++i) {
    const std::byte* from = p + i * kBlock * kSizeOf<D>;
    const int64_t rest = count - i * kBlock;
    Decode<D>(rest >= kBlock && IsAligned(from) ? LoadBlock<D>(from)
                                                : LoadPart<D>(from, rest),
              BlockOf(v, i));
  }
}

// Stores N positions of a line of an output. Skips positions beyond the matrix.
template <DType D, int N>
__device__ __forceinline__ void StoreSpan(const GroupTask& group, int64_t cols,
                                          bool columnwise, int64_t line,
                                          int64_t at, float (&v)[N]) {
  // `x` is the pointer to the input or to the output.
  std::byte* const x = const_cast<std::byte*>(group.x);
  if (columnwise) {
    const int64_t count = line < cols ? group.rows - at : 0;
    std::byte* p = x + (at * cols + line) * kSizeOf<D>;
    for (int i = 0; i < N && i < count; ++i) {
      StoreBits<D>(EncodeElement<D>(v[i]), p);
      p += cols * kSizeOf<D>;
    }
    return;
  }
  const int64_t count = line < group.rows ? cols - at : 0;
  std::byte* p = x + (line * cols + at) * kSizeOf<D>;
  for (int i = 0; i < N / kBlock; ++i) {
    std::byte* to = p + i * kBlock * kSizeOf<D>;
    const int64_t rest = count - i * kBlock;
    if (rest >= kBlock && IsAligned(to)) {
      StoreBlock<D>(Encode<D>(BlockOf(v, i)), to);
      continue;
    }
    for (int j = 0; j < kBlock && j < rest; ++j) {
      StoreBits<D>(EncodeElement<D>(v[i * kBlock + j]), to + j * kSizeOf<D>);
    }
  }
}

// Rotates blocks of n values and rounds them to bf16.
template <int N>
__device__ __forceinline__ void RotateSpan(float (&v)[N], int n,
                                           const float* signs) {
  for (int i = 0; i < N; i += n) RotateForwardOf<Scalar>(v + i, n, signs);
  for (int i = 0; i < N; ++i) {
    v[i] = DecodeBf16<Scalar>(EncodeBf16<Scalar>(v[i]));
  }
}

// The Seen bits of values for which FindMaxima found these maxima.
__device__ __forceinline__ uint32_t SeenIn(uint32_t max, uint32_t clean) {
  return (max > kInfBits ? kSeenNan : 0u) | (clean == kInfBits ? kSeenInf : 0u);
}

// The amax of a line; 0 if the format has no amax.
__device__ __forceinline__ float AmaxOf(const CopyTask& copy, int64_t line) {
  return copy.amax != nullptr ? copy.amax[line * copy.amax_line] : 0.0f;
}

// Stores `stored`, a result of StoredScale, as a scale of `type`.
__device__ __forceinline__ void StoreScaleAs(DType type, uint32_t stored,
                                             int64_t index, std::byte* to) {
  switch (type) {
    case DType::kF32:
      reinterpret_cast<uint32_t*>(to)[index] = stored;
      return;
    case DType::kF16:
    case DType::kBF16:
      reinterpret_cast<uint16_t*>(to)[index] =
          static_cast<uint16_t>(ScaleInType<Scalar>(type, stored));
      return;
    default:
      to[index] = static_cast<std::byte>(stored);
  }
}

// Calls `launch` with N as a constant.
template <typename F>
cudaError_t ForSpanSize(int n, const F& launch) {
  switch (n) {
    case 16:
      return launch(std::integral_constant<int, 16>{});
    case 32:
      return launch(std::integral_constant<int, 32>{});
    case 64:
      return launch(std::integral_constant<int, 64>{});
    case 128:
      return launch(std::integral_constant<int, 128>{});
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_SPAN_CUH_
