// Copies stored as the transpose: a lane decodes blocks of 16 tokens of its
// column, and a warp turns those of 32 columns into rows.
#include "kernels/cuda/warp_blocks.cuh"

namespace quantd::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kBlocks = kTileSide / kBlock;  // of a column's part of a chunk

// The column of a slot. The fragments 0 to 3 of 8 slots each give lane 4r + c
// the columns 8c to 8c + 7 this way.
__device__ __forceinline__ int ColumnOf(int slot) {
  return slot % 8 / 2 * 8 + slot / 8 * 2 + slot % 2;
}

// 16 bytes of which `left` are there, zeros beyond.
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

// The scales of a line's part of a chunk, as they are stored.
template <Scaling S>
struct LineScales {
  static constexpr int kCount =
      S == Scaling::kTensor ? 1 : kTileSide / kPositions<S>;
  static constexpr int kWords =
      S == Scaling::kTensor || S == Scaling::kBlock ? 1 : kCount / 4;
  uint32_t words[kWords] = {};

  // `first`: number of the first one, a multiple of kCount.
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
        // Four neighbours lie together in either layout, unless they are
        // compact.
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

  // Of positions 16 * block on.
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

// A lane's column in a chunk.
struct Column {
  int64_t line;            // one that exists
  const std::byte* codes;  // of the chunk's first token
  int bytes;               // of codes from there on; 0: no such line
  uintptr_t alignment;     // bits that say how codes are aligned

  template <int kWords>  // of a block
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

// Blocks of a column by a lane of its own: any codes and factors, any output.
template <DType D, DType E, Scaling S>
__device__ __forceinline__ void DecodeColumnAlone(const Chunk& chunk,
                                                  const Column& column,
                                                  const Factors<S>& factors,
                                                  int64_t cols, int first,
                                                  int end) {
  if (column.bytes == 0) return;
  constexpr int kBytes = 8 * kCodeWords<E>;  // of a block
#pragma unroll 1
  for (int b = first; b < end; ++b) {
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
    float v[kBlock];
    DecodeAlone<D, E>(words, factors.Of(stored), chunk.copy.signs, v);
    std::byte* to = chunk.out + (row * cols + column.line) * kSizeOf<D>;
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) {
      if (i < rows) StoreBits<D>(EncodeElement<D>(v[i]), to);
      to += cols * kSizeOf<D>;
    }
  }
}

template <DType D, DType E, Scaling S, bool kRotated>
__global__ void __launch_bounds__(kWarps* kWarp)
    DecodeColumns(const __grid_constant__ DecodeArgs a) {
  constexpr int kWords = 2 * kCodeWords<E>;  // of a block
  constexpr int kInFlight = 16 / kWords;     // blocks in 64 bytes
  __shared__ WarpBlocks shared[kIsHalf<D> ? kWarps : 1];
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const int64_t cols = a.list.cols;
  const int64_t strip = (int64_t{blockIdx.x} * kWarps + warp) * kWarp;
  if (strip >= cols) return;
  for (int64_t t = blockIdx.y; t < a.list.chunk_count; t += gridDim.y) {
    const Chunk chunk = FindChunk(a, true, t);
    const CopyTask& copy = chunk.copy;
    const Column column = Column::Find<kWords>(chunk, strip + ColumnOf(lane));
    if constexpr (!kIsHalf<D>) {
      const Factors<S> factors(copy, a.params.f6, column.line);
      DecodeColumnAlone<D, E>(chunk, column, factors, cols, 0, kBlocks);
    } else {
      WarpBlocks& blocks = shared[warp];
      // What this lane stores: columns from `col` on.
      const int64_t col = strip + lane % 4 * kUnit;
      const bool whole = cols % kUnit == 0 && IsAligned(chunk.out);
      // Where this lane's first token is, and how far its next one.
      std::byte* const out =
          chunk.out + ((chunk.row + lane / 4) * cols + col) * kSizeOf<D>;
      const int64_t out_step = 8 * cols * kSizeOf<D>;
      const int rows = col < cols ? chunk.rows - lane / 4 : 0;
      const LineScales<S> scales(
          copy, column.line,
          S == Scaling::kTensor
              ? 0
              : chunk.row / (kTileSide / LineScales<S>::kCount));
      uint32_t rotation[4] = {};
      if constexpr (kRotated) {
        QUANTD_UNROLL
        for (int i = 0; i < 4; ++i) {
          rotation[i] = RotationPair<D>(copy.signs, lane / 4 + i % 2 * 8,
                                        lane % 4 * 2 + i / 2 * 8);
        }
      }
      QUANTD_UNROLL
      for (int base = 0; base < kBlocks; base += kInFlight) {
        if (base * kBlock >= chunk.rows) break;
        uint32_t words[16];
        QUANTD_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int at = base * kWords * 4 + i * 16;
          const uint4 quad =
              LoadQuad(column.codes + at, column.bytes - at, column.alignment);
          words[4 * i] = quad.x;
          words[4 * i + 1] = quad.y;
          words[4 * i + 2] = quad.z;
          words[4 * i + 3] = quad.w;
        }
        // After the loads: it waits for one.
        const Factors<S> factors(copy, a.params.f6, column.line);
        float factor[kInFlight];
        bool plain = true;
        QUANTD_UNROLL
        for (int b = 0; b < kInFlight; ++b) {
          factor[b] = factors.Of(scales.At(base + b));
          plain &= kRotated ? IsExact<D>(factor[b])
                            : IsPlain<E, 2>(words + b * kWords, factor[b]);
        }
        if (!__all_sync(0xFFFFFFFFu, plain)) {
          DecodeColumnAlone<D, E>(chunk, column, factors, cols, base,
                                  base + kInFlight);
          continue;
        }
        QUANTD_UNROLL
        for (int b = 0; b < kInFlight; ++b) {
          if ((base + b) * kBlock >= chunk.rows) break;
          uint32_t v[8];
          DecodePlain<D, E, 2>(words + b * kWords, factor[b], v);
          uint4* const halves = blocks.halves[b % 2];
          halves[HalfIndex(lane, 0)] = make_uint4(v[0], v[1], v[2], v[3]);
          halves[HalfIndex(lane, 1)] = make_uint4(v[4], v[5], v[6], v[7]);
          __syncwarp();
          // Of fragment 2i + h, slots 8i to 8i + 7 and the tokens' half h.
          uint32_t tokens[2][4];
          QUANTD_UNROLL
          for (int i = 0; i < 2; ++i) {
            const uint4* const from =
                halves +
                HalfIndex(16 * i + lane / 16 * 8 + lane % 8, lane / 8 % 2);
            uint32_t f[4];
            LoadFragments<!kRotated>(from, f);
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
          QUANTD_UNROLL
          for (int h = 0; h < 2; ++h) {
            const int eighth = 2 * (base + b) + h;
            if (eighth * 8 >= rows) continue;
            StoreUnit<D>(tokens[h], whole, cols - col, out + eighth * out_step);
          }
        }
      }
    }
  }
}

// --- launchers --------------------------------------------------------------

template <DType D, DType E, Scaling S>
cudaError_t LaunchColumns(const DecodeArgs& a, const Queue& queue) {
  constexpr int kColumns = kWarps * kWarp;
  const dim3 grid =
      GridOf((a.list.cols + kColumns - 1) / kColumns, a.list.chunk_count);
  if constexpr (S == Scaling::kNvfp4) {
    if (a.rotation != 0) {
      DecodeColumns<D, E, S, true><<<grid, kColumns, 0, queue.stream>>>(a);
      return cudaGetLastError();
    }
  }
  // MXFP8 is never stored as the transpose.
  if constexpr (S == Scaling::kMx && E != DType::kE2M1x2) {
    return cudaErrorInvalidValue;
  } else {
    DecodeColumns<D, E, S, false><<<grid, kColumns, 0, queue.stream>>>(a);
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
