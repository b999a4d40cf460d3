// Writes codes and scales of a warp's sixteen lines of a tile to memory, in
// whole pieces.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_TILE_LINES_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_TILE_LINES_CUH_

#include "kernels/cuda/encode/nvfp4/encode.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"
#include "kernels/cuda/tile/stream.cuh"

namespace quantd::cuda {

// A stack: tiles below each other that a team takes one after the other, as
// many as fill a memory sector with a column's scales.
inline constexpr uint32_t kStack = 4;

// The place of a copy's lines.
struct alignas(16) LineTask {
  std::byte* data;
  std::byte* scale;
  uint32_t data_line;
  uint32_t scale_line;
  uint32_t across;  // for a swizzled copy: pieces of four blocks in a line
  uint32_t what;

  // Aligned: the start of lines and the distance between them are multiples of
  // 16 bytes.
  static constexpr uint32_t kSwizzled = 1;
  static constexpr uint32_t kAlignedCodes = 2;
  static constexpr uint32_t kAlignedScales = 4;
  static constexpr uint32_t kCompact = 8;  // a square has one scale
  static constexpr uint32_t kRest = 4;     // bits to shift for blocks()

  __device__ __forceinline__ explicit LineTask(const CopyTask& copy)
      : data(copy.data),
        scale(copy.scale),
        data_line(static_cast<uint32_t>(copy.data_line)),
        scale_line(static_cast<uint32_t>(copy.scale_line)),
        across((static_cast<uint32_t>(copy.blocks) + 3) / 4) {
    const auto aligned = [](const std::byte* p, uint32_t line) {
      return ((reinterpret_cast<uintptr_t>(p) | line) % 16) == 0;
    };
    what = static_cast<uint32_t>(copy.padded / kBlock) << kRest |
           (copy.swizzled ? kSwizzled : 0) |
           (copy.scale_lines != 1 ? kCompact : 0) |
           (aligned(data, data_line) ? kAlignedCodes : 0) |
           (aligned(scale, scale_line) ? kAlignedScales : 0);
  }
  __device__ __forceinline__ bool is(uint32_t bits) const {
    return (what & bits) != 0;
  }
  // The number of blocks of a line that have codes.
  __device__ __forceinline__ int blocks() const {
    return static_cast<int>(what >> kRest);
  }
};

// Shared memory in which the codes of a warp's sixteen lines are gathered into
// pieces of 64 bytes of each line. Pieces of two blocks are swizzled, and so
// are the two blocks, to avoid bank conflicts.
class LineCodes {
 public:
  struct alignas(128) Storage {
    uint4 pieces[kBlock][kSquares / 2];
  };

  __device__ __forceinline__ explicit LineCodes(Storage* storage)
      : base_(SharedAddress(storage)) {
    const uint32_t lane = threadIdx.x % kWarp;
    own_ = Kept(Address(storage, lane % kBlock, lane / kBlock * 4));
  }
  // The address of a block of a line.
  static __device__ __forceinline__ uint32_t Address(const Storage* storage,
                                                     uint32_t line,
                                                     uint32_t block) {
    return Address(SharedAddress(storage), line, block);
  }
  static __device__ __forceinline__ uint32_t Address(uint32_t storage,
                                                     uint32_t line,
                                                     uint32_t block) {
    return storage + line * 64 + (block / 2 ^ line / 2 % 4) * 16 +
           (block % 2 ^ line / 8) * 8;
  }
  // Sets the codes of block lane / 16 * 4 + i of line lane % 16.
  __device__ __forceinline__ void Set(uint32_t i, uint2 codes) const {
    StoreShared(own_ ^ i * 8, codes);
  }
  // These codes with the halves of a warp `apart` blocks apart, a power of two
  // larger than any i.
  __device__ __forceinline__ LineCodes Apart(uint32_t apart) const {
    const uint32_t lane = threadIdx.x % kWarp;
    LineCodes codes = *this;
    codes.own_ = Address(base_, lane % kBlock, lane / kBlock * apart);
    return codes;
  }
  // Returns the codes of two blocks of line 8i + lane / 4: block lane % 4 * 2
  // and the next.
  __device__ __forceinline__ uint4 two(int i) const {
    const uint32_t lane = threadIdx.x % kWarp;
    const uint4 w = LoadShared4(base_ + lane / 4 * 64 + 512 * i +
                                (lane % 4 ^ lane / 8 % 4) * 16);
    return i == 0 ? w : make_uint4(w.z, w.w, w.x, w.y);
  }

 private:
  uint32_t base_;
  uint32_t own_;
};

// The place of sixteen lines: the first line, the tile's first block of them,
// and how much of either the copy has (possibly more, or nothing).
struct LinePlace {
  uint32_t line;
  uint32_t block;
  int lines;
  int blocks;
};
// The place of a warp's rows, or columns, from row or column `first` of the
// tile on.
__device__ __forceinline__ LinePlace PlaceOfRows(const Place& at,
                                                 uint32_t first) {
  return {at.row + first, at.col / kBlock, at.rows - static_cast<int>(first),
          at.cols / kBlock};
}
__device__ __forceinline__ LinePlace PlaceOfColumns(const LineTask& copy,
                                                    const Place& at,
                                                    uint32_t first) {
  const uint32_t block = at.row / kBlock;
  return {at.col + first, block, at.cols - static_cast<int>(first),
          copy.blocks() - static_cast<int>(block)};
}

// The place of the scales of four blocks of a line in a swizzled copy. The
// first block's number is a multiple of four.
__device__ __forceinline__ uint64_t SwizzledPiece(uint32_t across,
                                                  uint32_t line,
                                                  uint32_t block) {
  return uint64_t{SwizzledTile(line, block, across)} * kSwizzledTile +
         (line % 32 * kSwizzledLine + line / 32 % 4 * kSwizzledQuarter);
}

// Stores `codes`, those of the lines at `at`. All lanes must call this.
__device__ __forceinline__ void StoreCodes(const LineTask& copy,
                                           const LinePlace& at,
                                           const LineCodes& codes) {
  const uint32_t lane = threadIdx.x % kWarp;
  __syncwarp();
  const uint32_t pitch = copy.data_line;
  const auto pieces = static_cast<int>(lane % 4);
  std::byte* to = copy.data + uint64_t{at.line + lane / 4} * pitch +
                  (at.block * 8 + lane % 4 * 16);
  if (copy.is(LineTask::kAlignedCodes) && at.lines >= kBlock &&
      at.blocks >= kSquares) {
    *reinterpret_cast<uint4*>(to) = codes.two(0);
    *reinterpret_cast<uint4*>(to + uint64_t{pitch} * 8) = codes.two(1);
  } else {
    QUANTD_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint4 w = codes.two(i);
      if (8 * i + static_cast<int>(lane / 4) >= at.lines) continue;
      std::byte* const p = to + uint64_t{pitch} * (8 * i);
      if (2 * pieces < at.blocks) {
        *reinterpret_cast<uint2*>(p) = make_uint2(w.x, w.y);
      }
      if (2 * pieces + 1 < at.blocks) {
        *reinterpret_cast<uint2*>(p + 8) = make_uint2(w.z, w.w);
      }
    }
  }
}

// Stores scales: each lane has those of blocks 4 (lane / 16) and up of line
// lane % 16, a byte each. Scales of blocks beyond the copy become zeros, as
// padding.
__device__ __forceinline__ void StoreScales(const LineTask& copy,
                                            const LinePlace& at,
                                            uint32_t scales) {
  const uint32_t lane = threadIdx.x % kWarp;
  const uint32_t line = lane % kBlock;
  const uint32_t block = lane / kBlock * 4;
  if (static_cast<int>(line) >= at.lines ||
      static_cast<int>(block) >= at.blocks) {
    return;
  }
  std::byte* const to =
      copy.is(LineTask::kSwizzled)
          ? copy.scale +
                SwizzledPiece(copy.across, at.line + line, at.block + block)
          : copy.scale + uint64_t{at.line + line} * copy.scale_line +
                (at.block + block);
  *reinterpret_cast<uint32_t*>(to) = scales;
}

// Scales of the tiles of a stack, held until they are whole sectors: memory
// takes as long for a part of a sector.
class HeldScales {
 public:
  __device__ __forceinline__ void Add(uint32_t scales) {
    QUANTD_UNROLL
    for (uint32_t i = 0; i + 1 < kStack; ++i) words_[i] = words_[i + 1];
    words_[kStack - 1] = scales;
  }
  // Stores the scales of `count` tiles that end with the one at `at`. All lanes
  // must call this.
  __device__ __forceinline__ void Store(const LineTask& copy,
                                        const LinePlace& at,
                                        uint32_t count) const {
    const uint32_t lane = threadIdx.x % kWarp;
    const uint32_t block = at.block - kSquares * (count - 1);
    if (count == kStack && at.lines >= kBlock && at.blocks >= kSquares &&
        (copy.what & (LineTask::kAlignedScales | LineTask::kSwizzled)) ==
            LineTask::kAlignedScales &&
        block % 16 == 0) {
      // A lane and the one with the line's other half take two tiles each.
      const bool low = lane < kBlock;
      const uint32_t a =
          __shfl_xor_sync(0xFFFFFFFFu, low ? words_[2] : words_[0], kBlock);
      const uint32_t b =
          __shfl_xor_sync(0xFFFFFFFFu, low ? words_[3] : words_[1], kBlock);
      *reinterpret_cast<uint4*>(
          copy.scale + uint64_t{at.line + lane % kBlock} * copy.scale_line +
          (block + lane / kBlock * 16)) =
          low ? make_uint4(words_[0], a, words_[1], b)
              : make_uint4(a, words_[2], b, words_[3]);
      return;
    }
    QUANTD_UNROLL
    for (uint32_t i = 0; i < kStack; ++i) {
      if (i >= count) continue;
      const uint32_t back = kSquares * i;
      StoreScales(copy,
                  {at.line, at.block - back, at.lines,
                   at.blocks + static_cast<int>(back)},
                  words_[kStack - 1 - i]);
    }
  }

 private:
  uint32_t words_[kStack] = {};
};

// StoreScales for lines of squares, which may share a scale.
__device__ __forceinline__ void StoreScalesOfSquares(const LineTask& copy,
                                                     const LinePlace& at,
                                                     uint32_t scales) {
  if (!copy.is(LineTask::kCompact)) return StoreScales(copy, at, scales);
  const uint32_t lane = threadIdx.x % kWarp;
  const uint32_t block = lane / kBlock * 4;
  if (lane % kBlock != 0 || at.lines <= 0) return;
  std::byte* const to = copy.scale +
                        uint64_t{at.line / kBlock} * copy.scale_line +
                        (at.block + block);
  for (int i = 0; i < 4 && static_cast<int>(block) + i < at.blocks; ++i) {
    to[i] = static_cast<std::byte>(scales >> (8 * i));
  }
}
// Stores the columnwise scales of squares of the tile at `tile`, or holds them
// until the stack is complete.
__device__ __forceinline__ void StoreOrHoldSquares(const LineTask& copy,
                                                   const LinePlace& at,
                                                   const Place& tile,
                                                   uint32_t scales,
                                                   HeldScales* held) {
  if (copy.is(LineTask::kCompact)) {
    return StoreScalesOfSquares(copy, at, scales);
  }
  held->Add(scales);
  if (tile.last != 0) held->Store(copy, at, tile.number + 1);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_TILE_LINES_CUH_
