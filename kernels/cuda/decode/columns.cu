// Decodes copies whose codes are transposed. A lane decodes blocks of 16 rows
// of its column, and a warp transposes the blocks of 32 columns into rows.
#include "kernels/cuda/decode/warp_blocks.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kBlocks = kTileSide / kBlock;  // blocks of a column in a chunk

// The column of a slot of shared memory. In this order, fragments 0 to 3, of 8
// slots each, give lane 4r + c the columns 8c to 8c + 7.
__device__ __forceinline__ int ColumnOf(int slot) {
  return slot % 8 / 2 * 8 + slot / 8 * 2 + slot % 2;
}

// Loads 16 bytes. Only `left` bytes exist; the others become zeros.
__device__ __forceinline__ uint4 LoadQuad(const std::byte* from, int left,
                                          uintptr_t alignment) {
  if (left >= 16 && alignment % 16 == 0) {
    return *reinterpret_cast<const uint4*>(from);
  }
  uint2 halves[2] = {};
  QUANTD_UNROLL
  for (int i = 0; i < 2; ++i) {
    if (left >= 8 * (i + 1) && alignment % 8 == 0) {
      halves[i] = reinterpret_cast<const uint2*>(from)[i];
      continue;
    }
    const int end = left < 8 * (i + 1) ? left : 8 * (i + 1);
#pragma unroll 1
    for (int j = end - 1; j >= 8 * i; --j) {
      halves[i].y = halves[i].y << 8 | halves[i].x >> 24;
      halves[i].x = halves[i].x << 8 | static_cast<uint32_t>(from[j]);
    }
  }
  return make_uint4(halves[0].x, halves[0].y, halves[1].x, halves[1].y);
}

// The part of a lane's column that lies in a chunk.
struct Column {
  int64_t line;            // the column, or 0 if it does not exist
  const std::byte* codes;  // codes of the chunk's first row
  int bytes;               // bytes of codes in the chunk; 0: no such column
  uintptr_t alignment;     // its lowest set bit is the codes' alignment

  template <int kWords>  // words of a block
  static __device__ __forceinline__ Column Find(const Chunk& chunk,
                                                int64_t line) {
    const CopyTask& copy = chunk.copy;
    const int64_t known = line < copy.lines ? line : 0;
    const int64_t rest = copy.padded - chunk.row;
    const int positions = rest < kTileSide ? static_cast<int>(rest) : kTileSide;
    return {known, copy.data + known * copy.data_line + chunk.row * kWords / 4,
            line < copy.lines ? positions * kWords / 4 : 0,
            reinterpret_cast<uintptr_t>(copy.data) |
                static_cast<uintptr_t>(copy.data_line)};
  }
};

// Loads the codes of a column. Missing codes become zeros.
template <int kWords>
__device__ __forceinline__ void LoadCodes(const Column& column,
                                          uint32_t (&words)[kWords]) {
  const auto load = [&](auto quad) {
    QUANTD_UNROLL
    for (int i = 0; i < kWords / 4; ++i) {
      const uint4 q = quad(16 * i);
      words[4 * i] = q.x;
      words[4 * i + 1] = q.y;
      words[4 * i + 2] = q.z;
      words[4 * i + 3] = q.w;
    }
  };
  if (column.bytes == 4 * kWords && column.alignment % 16 == 0) {
    load([&](int i) {
      return *reinterpret_cast<const uint4*>(column.codes + i);
    });
  } else {
    load([&](int i) {
      return LoadQuad(column.codes + i, column.bytes - i, column.alignment);
    });
  }
}

// The stored scales of the part of a line that lies in a chunk.
template <Scaling S>
struct LineScales {
  static constexpr int kCount =
      S == Scaling::kTensor ? 1 : kTileSide / kPositions<S>;
  static constexpr int kWords =
      S == Scaling::kTensor || S == Scaling::kBlock ? 1 : kCount / 4;
  uint32_t words[kWords] = {};

  // `first` is the number of the first scale, a multiple of kCount.
  __device__ __forceinline__ LineScales(const CopyTask& copy, int64_t line,
                                        int64_t first) {
    if constexpr (S == Scaling::kTensor) {
      return;
    } else if constexpr (S == Scaling::kBlock) {
      words[0] = LoadStored<S>(ScaleOf(copy, line, first, kScaleSize<S>));
    } else {
      QUANTD_UNROLL
      for (int i = 0; i < kWords; ++i) {
        const int64_t number = first + 4 * i;
        if (number >= copy.blocks) continue;
        // Four neighbouring scales are adjacent in either layout, unless scales
        // are compact.
        if (copy.scale_lines == 1) {
          words[i] = *reinterpret_cast<const uint32_t*>(
              ScaleOf(copy, line, number, 1));
          continue;
        }
        for (int j = 0; j < 4 && number + j < copy.blocks; ++j) {
          words[i] |= LoadStored<S>(ScaleOf(copy, line, number + j, 1))
                      << (8 * j);
        }
      }
    }
  }

  // The scale of the positions from 16 * block on.
  __device__ __forceinline__ uint32_t At(int block) const {
    if constexpr (kWords == 1 && kCount == 1) {
      return words[0];
    } else {
      const int i = block * kCount / kBlocks;
      return words[i / 4] >> (8 * (i % 4)) & 0xFFu;
    }
  }
};

// --- kernel -----------------------------------------------------------------

// Decodes a column with one lane, for any codes, factors and output.
template <DType D, DType E, Scaling S>
__device__ __forceinline__ void DecodeColumnAlone(const Chunk& chunk,
                                                  const Column& column,
                                                  const Factors<S>& factors,
                                                  int64_t cols) {
  if (column.bytes == 0) return;
  constexpr int kBytes = 4 * kBlockWords<E>;  // bytes of a block
#pragma unroll 1
  for (int b = 0; b < kBlocks; ++b) {
    const int64_t row = chunk.row + b * kBlock;
    const int rows = chunk.rows - b * kBlock;
    if (rows <= 0) return;
    const int rest = column.bytes - b * kBytes;
    const uint4 quad =
        LoadQuad(column.codes + b * kBytes, rest < kBytes ? rest : kBytes,
                 column.alignment);
    const uint32_t words[4] = {quad.x, quad.y, quad.z, quad.w};
    uint32_t stored = 0;
    if constexpr (S != Scaling::kTensor) {
      stored = LoadStored<S>(
          ScaleOf(chunk.copy, column.line, row / kPositions<S>, kScaleSize<S>));
    }
    StoreColumn<D>(
        DecodeAlone<D, E>(words, factors.Of(stored), chunk.copy.signs), rows,
        cols * kSizeOf<D>, chunk.out + (row * cols + column.line) * kSizeOf<D>);
  }
}

// Transposes the warp's blocks, which are 16 rows of 32 columns with a column
// in each slot, and undoes their rotation. tokens[h] receives 8 columns of row
// 8 * h + lane / 4, from column 8 * (lane % 4) on.
template <DType D, bool kRotated>
__device__ __forceinline__ void TurnBlocks(const uint4* quads,
                                           const uint32_t (&rotation)[4],
                                           uint32_t (&tokens)[2][4]) {
  const int lane = threadIdx.x % kWarp;
  // Fragment 2j + h holds slots 8j to 8j + 7 and half h of the rows.
  QUANTD_UNROLL
  for (int i = 0; i < 2; ++i) {
    uint32_t f[4];
    LoadFragments<!kRotated>(
        quads + QuadIndex<D>(16 * i + lane / 16 * 8 + lane % 8, lane / 8 % 2),
        f);
    QUANTD_UNROLL
    for (int j = 0; j < 2; ++j) {
      if constexpr (kRotated) {
        float sums[4];
        Multiply<D>(rotation, f[2 * j], f[2 * j + 1], sums);
        tokens[0][2 * i + j] = PackSums<D>(sums[0], sums[1]);
        tokens[1][2 * i + j] = PackSums<D>(sums[2], sums[3]);
      } else {
        tokens[0][2 * i + j] = f[2 * j];
        tokens[1][2 * i + j] = f[2 * j + 1];
      }
    }
  }
}

// The bound of one CTA for each multiprocessor lets the compiler use enough
// registers. The kernel is slower with more warps.
template <DType D, DType E, Scaling S, bool kRotated>
__global__ void __launch_bounds__(kWarps* kWarp, 1)
    DecodeColumns(const __grid_constant__ DecodeArgs a, int together) {
  constexpr int kWords = kBlockWords<E>;  // words of a block
  __shared__ WarpBlocks<D> shared[kIsHalf<D> ? kWarps : 1];
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const int64_t cols = a.list.cols;
  const int64_t strip =
      (int64_t{blockIdx.x >> together} * kWarps + warp) * kWarp;
  if (strip >= cols) return;
  const int below = static_cast<int>(blockIdx.x) & ((1 << together) - 1);
  for (int64_t t = (int64_t{blockIdx.y} << together) + below;
       t < a.list.chunk_count; t += int64_t{gridDim.y} << together) {
    const Chunk chunk = FindChunk(a, true, t);
    const CopyTask& copy = chunk.copy;
    const Column column = Column::Find<kWords>(chunk, strip + ColumnOf(lane));
    bool plain = kIsHalf<D> && cols % kUnit<D> == 0 && IsAligned(chunk.out);
    if constexpr (kIsHalf<D>) {
      // All loads come first: none depends on another one's result.
      const LineScales<S> scales(
          copy, column.line,
          S == Scaling::kTensor
              ? 0
              : chunk.row / (kTileSide / LineScales<S>::kCount));
      uint32_t words[kBlocks * kWords];
      LoadCodes(column, words);
      uint32_t rotation[4] = {};
      if constexpr (kRotated) {
        QUANTD_UNROLL
        for (int i = 0; i < 4; ++i) {
          rotation[i] = RotationPair<D>(copy.signs, lane / 4 + i % 2 * 8,
                                        lane % 4 * 2 + i / 2 * 8);
        }
      }
      const Factors<S> factors(copy, a.params.range, column.line);
      float factor[kBlocks];
      QUANTD_UNROLL
      for (int b = 0; b < kBlocks; ++b) {
        factor[b] = factors.Of(scales.At(b));
        const uint32_t* const codes = words + b * kWords;
        plain &= kRotated ? IsExact<D, E>(codes, factor[b])
                          : IsPlain<E, kWords>(codes, factor[b]);
      }
      plain = __all_sync(0xFFFFFFFFu, plain);
      // The address of this lane's 8 columns in its first row.
      const int64_t col = strip + lane % 4 * kUnit<D>;
      std::byte* out =
          chunk.out + ((chunk.row + lane / 4) * cols + col) * kSizeOf<D>;
      const int64_t out_step = 8 * cols * kSizeOf<D>;
      const int rows = col < cols ? chunk.rows - lane / 4 : 0;
      QUANTD_UNROLL
      for (int b = 0; b < kBlocks; ++b) {
        if (!plain || b * kBlock >= chunk.rows) break;
        uint32_t v[8];
        DecodePlain<D, E, 2>(words + b * kWords, factor[b], v);
        uint4* const quads = shared[warp].quads[b % 2];
        PutBlock<D>(quads, lane, v);
        __syncwarp();
        uint32_t tokens[2][4];
        TurnBlocks<D, kRotated>(quads, rotation, tokens);
        QUANTD_UNROLL
        for (int h = 0; h < 2; ++h) {
          if (b * kBlock + 8 * h < rows) {
            StoreUnit<D>(tokens[h], true, kUnit<D>, out);
          }
          out += out_step;
        }
      }
    }
    if (!plain) {
      const Factors<S> factors(copy, a.params.range, column.line);
      DecodeColumnAlone<D, E>(chunk, column, factors, cols);
    }
    __syncwarp();  // The next chunk reuses the same half of `shared`.
  }
}

// --- launchers --------------------------------------------------------------

template <DType D, DType E, Scaling S>
cudaError_t LaunchColumns(const DecodeArgs& a, const Queue& queue) {
  constexpr int kColumns = kWarps * kWarp;
  const int64_t across = (a.list.cols + kColumns - 1) / kColumns;
  const int64_t chunks = a.list.chunk_count;
  // Chunks whose codes of a column are 256 adjacent bytes are neighbours in the
  // grid, because they share pages of memory and sectors of scales.
  int together = E == DType::kE2M1x2 ? 2 : 1;
  while (int64_t{1} << together > chunks) --together;
  const dim3 grid = GridOf(across << together, ((chunks - 1) >> together) + 1);
  // (For fp32 output, DecodeColumnAlone undoes rotations.)
  if constexpr (E == DType::kE2M1x2 && kIsHalf<D>) {
    if (a.rotation != 0) {
      DecodeColumns<D, E, S, true>
          <<<grid, kColumns, 0, queue.stream>>>(a, together);
      return cudaGetLastError();
    }
  }
  // MXFP8 codes are never transposed.
  if constexpr (S == Scaling::kMx && E != DType::kE2M1x2) {
    return cudaErrorInvalidValue;
  } else {
    DecodeColumns<D, E, S, false>
        <<<grid, kColumns, 0, queue.stream>>>(a, together);
    return cudaGetLastError();
  }
}

}  // namespace

cudaError_t LaunchDecodeColumns(const DecodeArgs& a, const Queue& queue) {
  return ForDecoding(a.params, [&](auto types) {
    using T = decltype(types);
    return LaunchColumns<T::kOutput, T::kElement, T::kScaling>(a, queue);
  });
}

}  // namespace quantd::cuda
