// Rowwise NVFP4 with the inverse rotation of 16: a lane decodes a block, and a
// warp rotates 32 of them.
#include "kernels/cuda/warp_blocks.cuh"

namespace quantd::cuda {
namespace {

// Blocks that a thread has in flight.
constexpr int kSteps = 4;

// Block `item` of a tile 2^shift blocks wide.
struct BlockPlace {
  int row;
  int64_t col;

  __device__ BlockPlace(int shift, int item)
      : row(item >> shift),
        col(((int64_t{blockIdx.x} << shift) + (item & ((1 << shift) - 1))) *
            kBlock) {}
};

// A thread's blocks by itself: any factors, any output.
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
  const BlockPlace mine(shift, threadIdx.x);
  // Those of which this lane stores a quarter.
  const int other = warp * kWarp + lane / 4;
  const BlockPlace theirs[4] = {
      BlockPlace(shift, other), BlockPlace(shift, other + 8),
      BlockPlace(shift, other + 16), BlockPlace(shift, other + 24)};
  const int64_t tiles = a.list.chunk_count << parts;
  for (int64_t t = blockIdx.y; t < tiles; t += gridDim.y) {
    const Chunk chunk = FindChunk(a, false, t >> parts);
    const CopyTask& copy = chunk.copy;
    const int part = static_cast<int>(t) & ((1 << parts) - 1);
    const int first = part * (kSteps * step);
    if (first >= chunk.rows) continue;
    const LineScaleAddress scales(copy, chunk.row, mine.col / kPositions<S>, 1);
    const std::byte* const from =
        copy.data + (chunk.row + first + mine.row) * copy.data_line +
        mine.col / 2;
    uint2 codes[kSteps] = {};
    uint32_t stored[kSteps] = {};
    QUANTD_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      const int row = first + i * step + mine.row;
      if (row >= chunk.rows || mine.col >= cols) continue;
      codes[i] =
          *reinterpret_cast<const uint2*>(from + i * step * copy.data_line);
      stored[i] = LoadStored<S>(scales.At(row));
    }
    // Rows have one amax: row_scaled and rotation exclude each other.
    const Factors<S> factors(copy, a.params.f6, 0);
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
      DecodeAloneAt<D>(chunk, factors, cols, first + mine.row, step, mine.col);
      continue;
    }
    if constexpr (kIsHalf<D>) {
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
            const int row = first + i * step + theirs[2 * j + k].row;
            const int64_t col = theirs[2 * j + k].col;
            if (row >= chunk.rows || col >= cols) continue;
            std::byte* const to =
                chunk.out +
                ((chunk.row + row) * cols + col + lane % 4 * 4) * kSizeOf<D>;
            *reinterpret_cast<uint2*>(to) =
                make_uint2(PackSums<D>(low[2 * k], low[2 * k + 1]),
                           PackSums<D>(high[2 * k], high[2 * k + 1]));
          }
        }
      }
    }
  }
}

template <DType D>
cudaError_t Launch(const DecodeArgs& a, const Queue& queue) {
  const int64_t blocks = (a.list.cols + kBlock - 1) / kBlock;
  const int shift = TileShift(blocks, 3, 6);
  DecodeRotatedRows<D>
      <<<GridOf(((blocks - 1) >> shift) + 1, a.list.chunk_count << (shift - 3)),
         kThreads, 0, queue.stream>>>(a, shift);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchDecodeRotatedRows(const DecodeArgs& a, const Queue& queue) {
  switch (a.params.output) {
    case DType::kF32:
      return Launch<DType::kF32>(a, queue);
    case DType::kF16:
      return Launch<DType::kF16>(a, queue);
    case DType::kBF16:
      return Launch<DType::kBF16>(a, queue);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace quantd::cuda
