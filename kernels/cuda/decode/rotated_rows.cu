// Decodes rowwise copies and undoes their rotation of dimension 16. A lane
// decodes a block, and a warp stores 32 blocks as pieces of rows. Tensor cores
// rotate E2M1 with 16-bit output. Lanes rotate all other blocks.
#include "kernels/cuda/decode/warp_blocks.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

// Blocks that a thread loads at once.
constexpr int kSteps = 4;

// The position of block `item` in a tile that is 2^shift blocks wide.
struct BlockPlace {
  int row;
  int col;

  __device__ BlockPlace(int shift, int item)
      : row(item >> shift), col((item & ((1 << shift) - 1)) * kBlock) {}
};

template <DType E>
struct BlockCodes {
  uint32_t words[kBlockWords<E>];
};
template <DType E>
__device__ __forceinline__ BlockCodes<E> LoadCodes(const std::byte* from) {
  if constexpr (E == DType::kE2M1x2) {
    const uint2 codes = *reinterpret_cast<const uint2*>(from);
    return {{codes.x, codes.y}};
  } else {
    const uint4 codes = *reinterpret_cast<const uint4*>(from);
    return {{codes.x, codes.y, codes.z, codes.w}};
  }
}
template <DType E>
inline constexpr int kBlockBytes = 4 * kBlockWords<E>;

// Decodes the blocks of one thread without other lanes, for any factors and
// output.
template <DType D, DType E, Scaling S>
__device__ __forceinline__ void DecodeAloneAt(const Chunk& chunk,
                                              const Factors<S>& factors,
                                              int64_t cols, int first, int step,
                                              int64_t col) {
  const CopyTask& copy = chunk.copy;
  if (col >= cols) return;
#pragma unroll 1
  for (int i = 0; i < kSteps && first + i * step < chunk.rows; ++i) {
    const int64_t row = chunk.row + first + i * step;
    const BlockCodes<E> codes = LoadCodes<E>(copy.data + row * copy.data_line +
                                             col / kBlock * kBlockBytes<E>);
    const uint32_t stored =
        LoadStored<S>(ScaleOf(copy, row, col / kPositions<S>, 1));
    StoreBlock<D>(
        DecodeAlone<D, E>(codes.words, factors.Of(stored), copy.signs),
        chunk.out + (row * cols + col) * kSizeOf<D>);
  }
}

template <DType D, DType E, Scaling S>
__global__ void __launch_bounds__(kThreads, kIsHalf<D> ? 4 : 3)
    DecodeRotatedRows(const __grid_constant__ DecodeArgs a, int shift) {
  constexpr bool kTensorCores = kIsHalf<D> && E == DType::kE2M1x2;
  // Elements that a lane stores together, and the number of these stores.
  constexpr int kPiece = kTensorCores ? 4 : 16 / kSizeOf<D>;
  constexpr int kPieces = kBlock / kPiece;
  __shared__ WarpBlocks<D> shared[kThreads / kWarp];
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const int64_t cols = a.list.cols;
  const int step = kThreads >> shift;
  // A tile is kSteps * step rows high. A chunk has 2^parts tiles.
  const int parts = shift - 3;
  static_assert(kTileSide == 128 && kThreads == 256 && kSteps == 4);
  const int64_t left = (int64_t{blockIdx.x} << shift) * kBlock;
  const BlockPlace place(shift, threadIdx.x);
  const int64_t mine = left + place.col;
  // The pieces that this lane stores in each step: their rows, or kTileSide
  // outside of the matrix, and the offsets of their destinations.
  int rows[kPieces];
  int offsets[kPieces];
  QUANTD_UNROLL
  for (int i = 0; i < kPieces; ++i) {
    const BlockPlace other(shift, warp * kWarp + (kWarp * i + lane) / kPieces);
    // (Offsets fit into 32 bits: a warp only has several rows if rows are
    // short.)
    rows[i] = left + other.col < cols ? other.row : kTileSide;
    offsets[i] = ((other.row - place.row) * static_cast<int>(cols) + other.col +
                  lane % kPieces * kPiece) *
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
    const std::byte* from =
        copy.data + mine_row * copy.data_line + mine / kBlock * kBlockBytes<E>;
    const int64_t from_step = step * copy.data_line;
    BlockCodes<E> codes[kSteps] = {};
    uint32_t stored[kSteps] = {};
    QUANTD_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      const int row = first + i * step + place.row;
      if (row < chunk.rows && mine < cols) {
        codes[i] = LoadCodes<E>(from);
        stored[i] = LoadStored<S>(scales.At(row));
      }
      from += from_step;
    }
    // All rows have the same amax, because row_scaled excludes rotations.
    const Factors<S> factors(copy, a.params.range, 0);
    uint32_t rotation[4];
    if constexpr (kTensorCores) {
      // Column n of operand o is element 4 * (n / 2) + 2 * o + n % 2, so that
      // lane 4r + c gets elements 4c to 4c + 3 of block r.
      QUANTD_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int n = lane / 4;
        rotation[i] = RotationPair<D>(copy.signs, n / 2 * 4 + i / 2 * 2 + n % 2,
                                      lane % 4 * 2 + i % 2 * 8);
      }
    }
    float factor[kSteps];
    bool exact = true;
    QUANTD_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      factor[i] = factors.Of(stored[i]);
      exact &= IsExact<D, E>(codes[i].words, factor[i]);
    }
    if (!__all_sync(0xFFFFFFFFu, exact)) {
      DecodeAloneAt<D, E>(chunk, factors, cols, first + place.row, step, mine);
      continue;
    }
    std::byte* out = chunk.out + (mine_row * cols + left) * kSizeOf<D>;
    const auto stores = [&](int i, int piece) {
      return first + i * step + rows[piece] < chunk.rows;
    };
    QUANTD_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      uint4* const quads = shared[warp].quads[i % 2];
      if constexpr (kTensorCores) {
        uint32_t v[8];
        DecodePlain<D, E, 2>(codes[i].words, factor[i], v);
        PutBlock<D>(quads, lane, v);
        __syncwarp();
        QUANTD_UNROLL
        for (int j = 0; j < 2; ++j) {
          uint32_t f[4];
          LoadFragments<false>(
              quads + QuadIndex<D>(16 * j + lane % 16, lane / 16), f);
          float low[4];
          float high[4];
          Multiply<D>(f, rotation[0], rotation[1], low);
          Multiply<D>(f, rotation[2], rotation[3], high);
          QUANTD_UNROLL
          for (int k = 0; k < 2; ++k) {
            if (!stores(i, 2 * j + k)) continue;
            *reinterpret_cast<uint2*>(out + offsets[2 * j + k]) =
                make_uint2(PackSums<D>(low[2 * k], low[2 * k + 1]),
                           PackSums<D>(high[2 * k], high[2 * k + 1]));
          }
        }
      } else {
        float v[kBlock];
        QUANTD_UNROLL
        for (int j = 0; j < 4; ++j) {
          DecodeFour<E>(FourOf<E>(codes[i].words, j), v + 4 * j);
        }
        RotateInOrder<D>(factor[i], a.signs, v);
        uint32_t raw[4 * kSizeOf<D>];
        PackRun<D, true>(v, kBlock, raw);
        PutBlock<D>(quads, lane, raw);
        __syncwarp();
        QUANTD_UNROLL
        for (int j = 0; j < kPieces; ++j) {
          const uint4 piece =
              quads[QuadIndex<D>((kWarp * j + lane) / kPieces, lane % kPieces)];
          if (stores(i, j)) *reinterpret_cast<uint4*>(out + offsets[j]) = piece;
        }
      }
      out += step * cols * kSizeOf<D>;
    }
  }
}

template <DType D, DType E, Scaling S>
cudaError_t Launch(const DecodeArgs& a, const Queue& queue) {
  const int64_t blocks = (a.list.cols + kBlock - 1) / kBlock;
  // Offsets between the rows of a warp are 32-bit.
  const int shift = TileShift(blocks, blocks < (1 << 20) ? 3 : 5, 6);
  DecodeRotatedRows<D, E, S>
      <<<GridOf(((blocks - 1) >> shift) + 1, a.list.chunk_count << (shift - 3)),
         kThreads, 0, queue.stream>>>(a, shift);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchDecodeRotatedRows(const DecodeArgs& a, const Queue& queue) {
  return ForDecoding(a.params, [&](auto types) {
    using T = decltype(types);
    if constexpr (T::kScaling == Scaling::kNvfp4 ||
                  T::kScaling == Scaling::kMx) {
      return Launch<T::kOutput, T::kElement, T::kScaling>(a, queue);
    } else {
      return cudaErrorInvalidValue;
    }
  });
}

}  // namespace quantd::cuda
