// What the NVFP4 kernels that go by tiles share: a CTA of eight warps has one
// tile of 128 x 128 at a time in shared memory, and its units of codes and
// scales leave in whole pieces.
#ifndef QUANTD_KERNELS_CUDA_TILE_UNITS_CUH_
#define QUANTD_KERNELS_CUDA_TILE_UNITS_CUH_

#include "kernels/cuda/encode_nvfp4.cuh"
#include "kernels/cuda/nearest.cuh"
#include "kernels/cuda/rotate.cuh"

namespace quantd::cuda {

inline constexpr int kTileWarps = kTileSide / kBlock;
inline constexpr int kSquares = kTileSide / kBlock;  // blocks of a tile
static_assert(kTileWarps * kWarp == kThreads);

// One tile at a time. While a CTA waits for its own, others of the
// multiprocessor compute: that serves better than fewer CTAs with several
// tiles each.
inline constexpr int kTileCtas = 3;
using OneTile = TileRing<1, TileLayout::kSwizzled>;

// The tiles that a CTA takes. Of several groups they are neighbours: whenever the
// group changes, its tables have to be made.
struct TileWalk {
  uint32_t tile;
  uint32_t end;
  uint32_t step;

  __device__ __forceinline__ explicit TileWalk(const GroupList& list) {
    const auto count = static_cast<uint32_t>(TileCount(list));
    tile = list.count == 1 ? blockIdx.x : First(count, blockIdx.x);
    end = list.count == 1 ? count : First(count, blockIdx.x + 1);
    step = list.count == 1 ? gridDim.x : 1;
  }
  // The one after `tile`; `end` where there is none.
  __device__ __forceinline__ uint32_t next() const {
    return end - tile > step ? tile + step : end;
  }

 private:
  static __device__ __forceinline__ uint32_t First(uint32_t count,
                                                   uint32_t cta) {
    return static_cast<uint32_t>(uint64_t{count} * cta / gridDim.x);
  }
};

// Sixteen lines (rows or columns) of a tile, which are a warp's, and of each the
// blocks number and number + 4: 32 blocks, of which lane l has block number + l /
// 16 * 4 of line l % 16.
template <bool kColumns>
class Strip {
 public:
  uint32_t number = 0;

  __device__ __forceinline__ explicit Strip(const StagedTile& tile)
      : tile_(SharedAddress(tile.bytes)) {
    const uint32_t lane = threadIdx.x % kWarp;
    const uint32_t low = lane / 8 % 2 * 8;
    const uint32_t high = lane / 16 * 8;
    fragment_ = Kept(tile_ + (kColumns
                                  ? Offset(high + lane % 8, first() + low)
                                  : Offset(first() + low + lane % 8, high)));
    own_row_ = Kept(tile_ + Offset(first() + lane % kBlock, lane / kBlock * 64));
  }
  // The first line.
  static __device__ __forceinline__ uint32_t first() {
    return threadIdx.x / kWarp * kBlock;
  }

  // Of the square that holds blocks number + 4h, as LoadFragments has it, but
  // with lines as rows.
  __device__ __forceinline__ void Load(int h, uint32_t (&x)[4]) const {
    if constexpr (kColumns) {
      LoadFragmentsAt<true>(fragment_ + number * kRowOfSquares +
                                4 * kRowOfSquares * h, x);
    } else {
      LoadFragmentsAt<false>((fragment_ ^ number * 32) + kSwizzledBox * h, x);
    }
  }
  // This lane's block of a row, as it is: the address of its first half. The
  // other one is its neighbour, whichever way they are exchanged.
  __device__ __forceinline__ uint32_t own_row() const {
    static_assert(!kColumns);
    return own_row_ ^ number * 32;
  }
  // Number i of block b of the 32.
  __device__ __forceinline__ uint32_t Bits(uint32_t b, uint32_t i) const {
    const uint32_t line = first() + b % kBlock;
    const uint32_t at = (number + b / kBlock * 4) * kBlock + i;
    return LoadShared16(tile_ +
                        (kColumns ? Offset(at, line) : Offset(line, at)));
  }
  // This lane's block, for what is seldom needed.
  __device__ __forceinline__ Words Block() const {
    const uint32_t lane = threadIdx.x % kWarp;
    Words x;
    for (uint32_t i = 0; i < kBlock / 2; ++i) {
      x.w[i] = Bits(lane, 2 * i) | Bits(lane, 2 * i + 1) << 16;
    }
    return x;
  }

 private:
  static constexpr uint32_t kRowOfSquares = kBlock * 128;

  static __device__ __forceinline__ uint32_t Offset(uint32_t row,
                                                    uint32_t col) {
    return static_cast<uint32_t>(
        SwizzledOffset(static_cast<int>(row), static_cast<int>(col)));
  }

  uint32_t tile_;
  uint32_t fragment_;
  uint32_t own_row_;
};

// This lane's block of a strip of columns becomes the exchange's.
__device__ __forceinline__ void Gather(const Strip<true>& strip,
                                       const Exchange& exchange) {
  __syncwarp();  // what was here has been read
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    uint32_t x[4];
    strip.Load(h, x);
    QUANTD_UNROLL
    for (int k = 0; k < 4; ++k) {
      StoreShared(exchange.piece(k / 2, 2 * h + k % 2), x[k]);
    }
  }
  __syncwarp();
}

// Where the codes of a warp's sixteen lines become pieces of 64 bytes of each:
// shared memory. Exchanged, for the banks: pieces of two blocks, and the two.
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
  // Of a block of a line.
  static __device__ __forceinline__ uint32_t Address(const Storage* storage,
                                                     uint32_t line,
                                                     uint32_t block) {
    return SharedAddress(storage) + line * 64 +
           (block / 2 ^ line / 2 % 4) * 16 + (block % 2 ^ line / 8) * 8;
  }
  // Block lane / 16 * 4 + i of line lane % 16.
  __device__ __forceinline__ void Set(uint32_t i, uint2 codes) const {
    StoreShared(own_ ^ i * 8, codes);
  }
  // Of line 8i + lane / 4, blocks lane % 4 * 2 and the next.
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

// Where sixteen lines are: the first one, and the tile's first block of them; and
// how much of both the copy has (there may be more, or nothing).
struct LinePlace {
  uint32_t line;
  uint32_t block;
  int lines;
  int blocks;
};
// Of the warp's lines from `first` on, counted in the tile.
__device__ __forceinline__ LinePlace PlaceOfRows(const Place& at,
                                                 uint32_t first) {
  return {at.row + first, at.col / kBlock, at.rows - static_cast<int>(first),
          at.cols / kBlock};
}
__device__ __forceinline__ LinePlace PlaceOfColumns(const CopyTask& copy,
                                                    const Place& at,
                                                    uint32_t first) {
  const uint32_t block = at.row / kBlock;
  return {at.col + first, block, at.cols - static_cast<int>(first),
          static_cast<int>(static_cast<uint32_t>(copy.padded) / kBlock -
                           block)};
}

// All lanes must call this; each has the scales of blocks 4 (lane / 16) and up of
// line lane % 16, a byte each. Scales of blocks beyond the copy are zeros, as
// padding is. `first` as above.
__device__ __forceinline__ void StoreLines(const CopyTask& copy,
                                           const LinePlace& at, uint32_t first,
                                           const LineCodes& codes,
                                           uint32_t scales) {
  const uint32_t lane = threadIdx.x % kWarp;
  __syncwarp();
  const auto pitch = static_cast<uint32_t>(copy.data_line);
  const auto pieces = static_cast<int>(lane % 4);
  std::byte* to = copy.data + uint64_t{at.line + lane / 4} * pitch +
                  (at.block * 8 + lane % 4 * 16);
  const bool aligned =
      ((reinterpret_cast<uintptr_t>(copy.data) | pitch) % 16) == 0;
  if (aligned && at.lines >= kBlock && at.blocks >= kSquares) {
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
  const uint32_t line = lane % kBlock;
  const uint32_t block = lane / kBlock * 4;
  if (static_cast<int>(line) < at.lines &&
      static_cast<int>(block) < at.blocks) {
    const ScaleColumn places(copy, at.line - first, at.block + block);
    *reinterpret_cast<uint32_t*>(places.at(first + line)) = scales;
  }
}

// Sixteen E2M1 codes of a block in shared memory whose scale has no line. Apart,
// and from memory: it is seldom needed, and registers are short where it is.
static __device__ __noinline__ uint2 CodesWithoutLine(uint32_t block,
                                                      float s_dec,
                                                      uint32_t scale) {
  return CodesUnder(BlockAt(block), Nvfp4MultiplierOf<Scalar>(scale, s_dec));
}

// Sums of the columns of a tile, rows ascending: a thread is two columns.
__device__ __forceinline__ void SumColumns(const StagedTile& tile,
                                           const Place& at, int64_t cols,
                                           const GroupTask& task,
                                           unsigned thread) {
  const int column = 2 * static_cast<int>(thread);
  if (column >= at.cols) return;
  float low = 0.0f;
  float high = 0.0f;
  const auto add = [&](uint32_t word) {
    low = low + LowOf(word);
    high = high + HighOf(word);
  };
  // Of rows that are 0 to 7 more than a multiple of eight.
  const uint32_t first = SharedAddress(tile.bytes + SwizzledOffset(0, column));
  const auto word = [&](int r, int i) {
    return LoadShared((first ^ i * 16) + r * 128 + i * 128);
  };
  int r = 0;
#pragma unroll 2
  for (; r + 8 <= at.rows; r += 8) {
    uint32_t words[8];
    QUANTD_UNROLL
    for (int i = 0; i < 8; ++i) words[i] = word(r, i);
    QUANTD_UNROLL
    for (int i = 0; i < 8; ++i) add(words[i]);
  }
  for (int i = 0; r + i < at.rows; ++i) add(word(r, i));
  *reinterpret_cast<float2*>(task.partial + int64_t{at.chunk} * cols + at.col +
                             column) =
      make_float2(low, high);
}

// Starts a kernel with one tile at a time.
inline cudaError_t LaunchTiles(void (*kernel)(EncodeArgs, TensorMap),
                               size_t shared, const EncodeArgs& a,
                               const Queue& queue) {
  cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
      static_cast<int>(shared));
  if (error != cudaSuccess) return error;
  TensorMap map;
  error = MakeTensorMap(a.first.x, a.list.rows, a.list.cols, kTileSide, 64,
                        TileLayout::kSwizzled, &map);
  if (error != cudaSuccess) return error;
  kernel<<<GridFor(TileCount(a.list), kTileCtas, queue), kThreads, shared,
           queue.stream>>>(a, map);
  return cudaGetLastError();
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_UNITS_CUH_
