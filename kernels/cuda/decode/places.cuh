// Chunks of rows to decode, addresses of scales, and decode factors.
#ifndef QUANTD_KERNELS_CUDA_DECODE_PLACES_CUH_
#define QUANTD_KERNELS_CUDA_DECODE_PLACES_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/arith/decode.h"
#include "kernels/cuda/tile/span.cuh"

namespace quantd::cuda {

// Positions that share a scale; 0: the whole line.
template <Scaling S>
inline constexpr int kPositions = S == Scaling::kNvfp4   ? 16
                                  : S == Scaling::kMx    ? 32
                                  : S == Scaling::kBlock ? 128
                                                         : 0;

// A chunk of kTileSide rows of a group, and the copy that it is decoded from.
struct Chunk {
  CopyTask copy;
  std::byte* out;  // the group's first row
  int64_t row;     // the chunk's first row in the group
  int rows;        // rows of the chunk, at most kTileSide
};

__device__ __forceinline__ Chunk ChunkOf(const GroupTask& group,
                                         bool columnwise, int64_t row) {
  const int64_t rest = group.rows - row;
  // `x` is const because it also is the pointer to the input of encoders.
  return {columnwise ? group.columnwise : group.rowwise,
          const_cast<std::byte*>(group.x), row,
          rest < kTileSide ? static_cast<int>(rest) : kTileSide};
}
__device__ __forceinline__ Chunk FindChunk(const DecodeArgs& a, bool columnwise,
                                           int64_t number) {
  const GroupList& list = a.list;
  Chunk chunk;
  if (list.count == 1) {
    chunk = ChunkOf(a.only, columnwise, number * kTileSide);
  } else {
    const int64_t g = FindEntry(list.chunks, list.count, number);
    chunk = ChunkOf(list.groups[g], columnwise,
                    (number - list.chunks[g]) * kTileSide);
  }
  // Tells the compiler that these pointers from a table are global addresses.
  __builtin_assume(__isGlobal(chunk.copy.data));
  __builtin_assume(__isGlobal(chunk.copy.scale));
  __builtin_assume(__isGlobal(chunk.out));
  return chunk;
}

// Addresses of the scales of block `number` in neighbouring lines. A scale has
// `size` bytes.
struct LineScaleAddress {
  const std::byte* first;  // scale of line `line`, a multiple of 128
  int64_t pitch;           // bytes between lines in the linear layout
  int shift;               // log2 of the lines that share a scale
  bool swizzled;

  __device__ __forceinline__ LineScaleAddress(const CopyTask& copy,
                                              int64_t line, int64_t number,
                                              int size) {
    swizzled = copy.swizzled;
    pitch = copy.scale_line * size;
    // scale_lines is a power of two up to 128, unless the tensor has a single
    // scale.
    shift = __ffs(static_cast<int>(copy.scale_lines)) - 1;
    first = copy.scale + (swizzled ? SwizzledIndex(line, number, copy.blocks)
                                   : (line >> shift) * pitch +
                                         number * copy.scale_block * size);
  }
  // The address for line `line` + i, i < 128.
  __device__ __forceinline__ const std::byte* Swizzled(int i) const {
    __builtin_assume(i >= 0 && i < kTileSide);
    return first + static_cast<int>(SwizzledIndex(i, 0, 1));
  }
  __device__ __forceinline__ const std::byte* Linear(int i) const {
    return first + (i >> shift) * pitch;
  }
  __device__ __forceinline__ const std::byte* At(int i) const {
    return swizzled ? Swizzled(i) : Linear(i);
  }
};
// The address of the scale of block `number` of any line.
__device__ __forceinline__ const std::byte* ScaleOf(const CopyTask& copy,
                                                    int64_t line,
                                                    int64_t number, int size) {
  return LineScaleAddress(copy, line & -kTileSide, number, size)
      .At(static_cast<int>(line & (kTileSide - 1)));
}

// Computes DecodeFactor in two steps. The constructor does the first step, once
// for many blocks.
template <Scaling S>
struct Factors {
  Nvfp4Decode<Scalar> global = {};
  float tensor = 0;

  __device__ __forceinline__ Factors(const CopyTask& copy, float range,
                                     int64_t line) {
    if constexpr (S == Scaling::kNvfp4) {
      const float* const amax = copy.amax + line * copy.amax_line;
      __builtin_assume(__isGlobal(amax));
      global = MakeNvfp4Decode<Scalar>(*amax, range);
    } else if constexpr (S == Scaling::kTensor) {
      tensor = *reinterpret_cast<const float*>(copy.scale);
    }
  }

  // The factor of a block; `stored` is the result of LoadStored for its scale.
  __device__ __forceinline__ float Of(uint32_t stored) const {
    if constexpr (S == Scaling::kNvfp4) {
      return Nvfp4Factor<Scalar>(stored, global);
    } else if constexpr (S == Scaling::kMx) {
      return DecodeE8M0<Scalar>(stored);
    } else if constexpr (S == Scaling::kBlock) {
      return Scalar::Float(stored);
    } else {
      return tensor;
    }
  }
};

// Bytes of a stored scale.
template <Scaling S>
inline constexpr int kScaleSize = S == Scaling::kBlock ? 4 : 1;
template <Scaling S>
__device__ __forceinline__ uint32_t LoadStored(const std::byte* from) {
  if constexpr (S == Scaling::kTensor) {
    return 0;
  } else if constexpr (S == Scaling::kBlock) {
    return *reinterpret_cast<const uint32_t*>(from);
  } else {
    return static_cast<uint32_t>(*from);
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_DECODE_PLACES_CUH_
