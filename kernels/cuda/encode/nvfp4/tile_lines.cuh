// Stores the codes and scales of a warp's sixteen lines of a tile, in pieces
// that are as large as possible.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_TILE_LINES_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_TILE_LINES_CUH_

#include "kernels/cuda/encode/nvfp4/encode.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"
#include "kernels/cuda/tile/stream.cuh"

namespace quantd::cuda {

// The number of tiles in a stack. A team takes the tiles of a stack, one below
// the other, in order. A column's scales of a stack fill a memory sector.
inline constexpr uint32_t kStack = 4;

// Addresses and properties of a copy's lines.
struct alignas(16) LineTask {
  std::byte* data;
  std::byte* scale;
  uint32_t data_line;
  uint32_t scale_line;
  uint32_t across;  // for a swizzled copy: pieces of four blocks in a line
  uint32_t what;    // the bits below, then blocks()

  // Aligned: the start of lines and the distance between them are multiples of
  // 16 bytes.
  static constexpr uint32_t kSwizzled = 1;
  static constexpr uint32_t kAlignedCodes = 2;
  static constexpr uint32_t kAlignedScales = 4;
  static constexpr uint32_t kCompact = 8;  // squares, each with one stored
                                           // scale
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

// Shared memory in which a warp gathers the codes of its sixteen lines, 64
// bytes of each line. Pairs of blocks are swizzled, and also the two blocks of
// a pair, to avoid bank conflicts.
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
  // Returns LineCodes for which the blocks of a warp's halves are `apart`
  // blocks apart. `apart` is a power of two larger than any i.
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

// The position of sixteen lines of a tile: the first line and its first block,
// and how many lines and blocks the copy has from there on (possibly more than
// the tile, or none).
struct LinePlace {
  uint32_t line;
  uint32_t block;
  int lines;
  int blocks;
};
// The position of a warp's rows or columns, which begin at row or column
// `first` of the tile.
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

// The offset of the scales of four blocks of a line in a swizzled copy. The
// first block's number is a multiple of four.
__device__ __forceinline__ uint64_t SwizzledPiece(uint32_t across,
                                                  uint32_t line,
                                                  uint32_t block) {
  return uint64_t{SwizzledTile(line, block, across)} * kSwizzledTile +
         (line % 32 * kSwizzledLine + line / 32 % 4 * kSwizzledQuarter);
}

// Stores the codes of the lines at `at`. All lanes must call this.
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

// Stores the scales of the lines at `at`. A lane has the scales of four blocks,
// from block 4 (lane / 16) on, of line lane % 16, a byte each. Scales of blocks
// beyond the copy are zeros, like padding.
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

// Holds the scales of the tiles of a stack until they fill sectors, because
// storing a part of a sector takes as long as storing all of it.
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
      // The two lanes of a line store the scales of two tiles each.
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
// Stores the columnwise scales of squares, or holds them until the stack of
// `tile` is complete.
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
