// Decodes rowwise NVFP4 and undoes its rotation of 16: a lane decodes a block,
// and a warp rotates 32 of them.
#include "kernels/cuda/decode/warp_blocks.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

// How many blocks a thread has in flight.
constexpr int kSteps = 4;

// The place of block `item` in a tile that is 2^shift blocks wide.
struct BlockPlace {
  int row;
  int col;

  __device__ BlockPlace(int shift, int item)
      : row(item >> shift), col((item & ((1 << shift) - 1)) * kBlock) {}
};

// Decodes the blocks of one thread by itself, whatever factors and output are.
template <DType D>
__device__ __forceinline__ void DecodeAloneAt(
    const Chunk& chunk, const Factors<Scaling::kNvfp4>& factors, int64_t cols,
    int first, int step, int64_t col) {
  const CopyTask& copy = chunk.copy;
  if (col >= cols) return;
#pragma unroll 1
  for (int i = 0; i < kSteps && first + i * step < chunk.rows; ++i) {
    const int64_t row = chunk.row + first + i * step;
    const uint2 codes = *reinterpret_cast<const uint2*>(
        copy.data + row * copy.data_line + col / 2);
    const uint32_t words[2] = {codes.x, codes.y};
    const uint32_t stored =
        LoadStored<Scaling::kNvfp4>(ScaleOf(copy, row, col / kBlock, 1));
    float v[kBlock];
    DecodeAlone<D, DType::kE2M1x2>(words, factors.Of(stored), copy.signs, v);
    StoreBlock<D>(Encode<D>(v), chunk.out + (row * cols + col) * kSizeOf<D>);
  }
}

template <DType D>
__global__ void __launch_bounds__(kThreads)
    DecodeRotatedRows(const __grid_constant__ DecodeArgs a, int shift) {
  constexpr Scaling S = Scaling::kNvfp4;
  __shared__ WarpBlocks shared[kIsHalf<D> ? kThreads / kWarp : 1];
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const int64_t cols = a.list.cols;
  const int step = kThreads >> shift;
  // Tiles are kSteps steps high; a chunk has 2^parts of them.
  const int parts = shift - 3;
  static_assert(kTileSide == 128 && kThreads == 256 && kSteps == 4);
  const int64_t left = (int64_t{blockIdx.x} << shift) * kBlock;
  const BlockPlace place(shift, threadIdx.x);
  const int64_t mine = left + place.col;
  // Blocks of which this lane stores a quarter: their rows, from the first one
  // where they go, and whether they are in the matrix.
  int rows[4];
  int offsets[4];
  QUANTD_UNROLL
  for (int i = 0; i < 4; ++i) {
    const BlockPlace other(shift, warp * kWarp + 8 * i + lane / 4);
    // Where a warp has several rows, they are narrow.
    rows[i] = left + other.col < cols ? other.row : kTileSide;
    offsets[i] = ((other.row - place.row) * static_cast<int>(cols) + other.col +
                  lane % 4 * 4) *
                 kSizeOf<D>;
  }
  const int64_t tiles = a.list.chunk_count << parts;
  for (int64_t t = blockIdx.y; t < tiles; t += gridDim.y) {
    const Chunk chunk = FindChunk(a, false, t >> parts);
    const CopyTask& copy = chunk.copy;
    const int part = static_cast<int>(t) & ((1 << parts) - 1);
    const int first = part * (kSteps * step);
    if (first >= chunk.rows) continue;
    const LineScaleAddress scales(copy, chunk.row, mine / kPositions<S>, 1);
    const int64_t mine_row = chunk.row + first + place.row;
    const std::byte* from = copy.data + mine_row * copy.data_line + mine / 2;
    const int64_t from_step = step * copy.data_line;
    uint2 codes[kSteps] = {};
    uint32_t stored[kSteps] = {};
    QUANTD_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      const int row = first + i * step + place.row;
      if (row < chunk.rows && mine < cols) {
        codes[i] = *reinterpret_cast<const uint2*>(from);
        stored[i] = LoadStored<S>(scales.At(row));
      }
      from += from_step;
    }
    // Rows have one amax: row_scaled and rotation exclude each other.
    const Factors<S> factors(copy, a.params.range, 0);
    uint32_t rotation[4];
    if constexpr (kIsHalf<D>) {
      // Column n of fragment i is element 4 * (n / 2) + 2 * i + n % 2: lane
      // 4r + c gets the elements 4c to 4c + 3 of block r.
      QUANTD_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int n = lane / 4;
        rotation[i] = RotationPair<D>(copy.signs, n / 2 * 4 + i / 2 * 2 + n % 2,
                                      lane % 4 * 2 + i % 2 * 8);
      }
    }
    float factor[kSteps];
    bool exact = kIsHalf<D>;
    QUANTD_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      factor[i] = factors.Of(stored[i]);
      if constexpr (kIsHalf<D>) exact &= IsExact<D>(factor[i]);
    }
    if (!__all_sync(0xFFFFFFFFu, exact)) {
      DecodeAloneAt<D>(chunk, factors, cols, first + place.row, step, mine);
      continue;
    }
    if constexpr (kIsHalf<D>) {
      std::byte* out = chunk.out + (mine_row * cols + left) * kSizeOf<D>;
      QUANTD_UNROLL
      for (int i = 0; i < kSteps; ++i) {
        const uint32_t words[2] = {codes[i].x, codes[i].y};
        uint32_t v[8];
        DecodePlain<D, DType::kE2M1x2, 2>(words, factor[i], v);
        uint4* const halves = shared[warp].halves[i % 2];
        halves[HalfIndex(lane, 0)] = make_uint4(v[0], v[1], v[2], v[3]);
        halves[HalfIndex(lane, 1)] = make_uint4(v[4], v[5], v[6], v[7]);
        __syncwarp();
        QUANTD_UNROLL
        for (int j = 0; j < 2; ++j) {
          uint32_t f[4];
          LoadFragments<false>(
              halves + HalfIndex(16 * j + lane % 16, lane / 16), f);
          float low[4];
          float high[4];
          Multiply<D>(f, rotation[0], rotation[1], low);
          Multiply<D>(f, rotation[2], rotation[3], high);
          QUANTD_UNROLL
          for (int k = 0; k < 2; ++k) {
            const int which = 2 * j + k;
            if (first + i * step + rows[which] >= chunk.rows) continue;
            std::byte* const to = out + offsets[which];
            *reinterpret_cast<uint2*>(to) =
                make_uint2(PackSums<D>(low[2 * k], low[2 * k + 1]),
                           PackSums<D>(high[2 * k], high[2 * k + 1]));
          }
        }
        out += step * cols * kSizeOf<D>;
      }
    }
  }
}

template <DType D>
cudaError_t Launch(const DecodeArgs& a, const Queue& queue) {
  const int64_t blocks = (a.list.cols + kBlock - 1) / kBlock;
  // Offsets between the rows of a warp are counted in 32 bits.
  const int shift = TileShift(blocks, blocks < (1 << 20) ? 3 : 5, 6);
  DecodeRotatedRows<D>
      <<<GridOf(((blocks - 1) >> shift) + 1, a.list.chunk_count << (shift - 3)),
         kThreads, 0, queue.stream>>>(a, shift);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchDecodeRotatedRows(const DecodeArgs& a, const Queue& queue) {
  return ForDType(a.params.output,
                  [&](auto d) { return Launch<d()>(a, queue); });
}

}  // namespace quantd::cuda
