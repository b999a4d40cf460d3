// Decodes columnwise MXFP8, whose codes are not transposed, and undoes its
// rotation of dimension 16. A thread decodes 16 rows of the columns that fill 8
// bytes of an output row. Threads exchange no data.
#include "kernels/cuda/decode/warp_blocks.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

template <DType D>
inline constexpr int kColumns = 8 / kSizeOf<D>;  // columns of a thread

// A thread's columns in its 16 rows.
template <DType D>
struct Strip {
  const std::byte* codes;
  int64_t codes_step;  // bytes from row to row
  std::byte* out;
  int64_t out_step;
  int rows;     // rows to store
  int columns;  // columns to store, at most kColumns

  // Whether rows can be loaded and stored without bounds checks.
  __device__ __forceinline__ bool IsWhole() const {
    constexpr int kSide = kColumns<D>;
    return columns == kSide &&
           (reinterpret_cast<uintptr_t>(codes) |
            static_cast<uintptr_t>(codes_step)) %
                   kSide ==
               0 &&
           (reinterpret_cast<uintptr_t>(out) |
            static_cast<uintptr_t>(out_step)) %
                   8 ==
               0;
  }
};

// Decodes a strip column by column, for any codes, factors and output.
template <DType D, DType E>
__device__ __forceinline__ void DecodeStripAlone(const Strip<D>& strip,
                                                 const LineScaleAddress& scales,
                                                 int line, const float* signs) {
#pragma unroll 1
  for (int c = 0; c < strip.columns; ++c) {
    uint32_t words[4] = {};
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) {
      words[i / 4] |=
          static_cast<uint32_t>(strip.codes[i * strip.codes_step + c])
          << (8 * (i % 4));
    }
    const float factor =
        DecodeE8M0<Scalar>(LoadStored<Scaling::kMx>(scales.At(line + c)));
    StoreColumn<D>(DecodeAlone<D, E>(words, factor, signs), strip.rows,
                   strip.out_step, strip.out + c * kSizeOf<D>);
  }
}

template <DType D, DType E>
__global__ void __launch_bounds__(kThreads, kIsHalf<D> ? 3 : 4)
    DecodeRotatedInPlace(const __grid_constant__ DecodeArgs a, int shift) {
  constexpr int kSide = kColumns<D>;
  const int64_t cols = a.list.cols;
  const int64_t col =
      ((int64_t{blockIdx.x} << shift) + (threadIdx.x & ((1u << shift) - 1))) *
      kSide;
  if (col >= cols) return;
  // A chunk has 2^parts tiles, one below the other.
  const int parts = shift - 5;
  static_assert(kTileSide == 128 && kThreads == 256 && kBlock == 16);
  const int line = static_cast<int>(col & (kTileSide - 1));
  const int64_t tiles = a.list.chunk_count << parts;
  for (int64_t t = blockIdx.y; t < tiles; t += gridDim.y) {
    const Chunk chunk = FindChunk(a, true, t >> parts);
    const CopyTask& copy = chunk.copy;
    const int part = static_cast<int>(t) & ((1 << parts) - 1);
    const int first =
        (part * (kThreads >> shift) + static_cast<int>(threadIdx.x >> shift)) *
        kBlock;
    if (first >= chunk.rows) continue;
    const int64_t row = chunk.row + first;
    const int rows = chunk.rows - first < kBlock ? chunk.rows - first : kBlock;
    const int columns =
        cols - col < kSide ? static_cast<int>(cols - col) : kSide;
    // Padding has codes, too, so codes of all 16 rows can be loaded.
    const Strip<D> strip = {copy.data + row * copy.data_position + col,
                            copy.data_position,
                            chunk.out + (row * cols + col) * kSizeOf<D>,
                            cols * kSizeOf<D>,
                            rows,
                            columns};
    // These lines are neighbours, all within one tile of a swizzled layout.
    const LineScaleAddress scales(copy, col - line,
                                  row / kPositions<Scaling::kMx>, 1);
    bool exact = strip.IsWhole();
    if (exact) {
      using Word = std::conditional_t<kSide == 4, uint32_t, uint16_t>;
      uint32_t words[kBlock];
      QUANTD_UNROLL
      for (int i = 0; i < kBlock; ++i) {
        words[i] =
            *reinterpret_cast<const Word*>(strip.codes + i * strip.codes_step);
      }
      float factors[kSide];
      QUANTD_UNROLL
      for (int c = 0; c < kSide; ++c) {
        factors[c] =
            DecodeE8M0<Scalar>(LoadStored<Scaling::kMx>(scales.At(line + c)));
      }
      uint32_t any = 0;
      uint32_t special = 0;
      QUANTD_UNROLL
      for (int i = 0; i < kBlock; ++i) {
        any |= words[i];
        special |= SpecialBits<E>(words[i]);
      }
      exact = special == 0;
      QUANTD_UNROLL
      for (int c = 0; c < kSide; ++c) {
        const bool zeros = (any >> (8 * c) & 0x7Fu) == 0;
        exact &=
            IsFinite(factors[c]) && (zeros || IsExactFactor<D, E>(factors[c]));
      }
      if (exact) {
        uint32_t out[kBlock][2];
        QUANTD_UNROLL
        for (int c = 0; c < kSide; c += 2) {
          float low[kBlock];
          float high[kBlock];
          QUANTD_UNROLL
          for (int i = 0; i < kBlock; ++i) {
            const float2 v = DecodePair<E>(words[i] >> (8 * c));
            low[i] = v.x;
            high[i] = v.y;
          }
          RotateInOrder<D>(factors[c], a.signs, low);
          RotateInOrder<D>(factors[c + 1], a.signs, high);
          QUANTD_UNROLL
          for (int i = 0; i < kBlock; ++i) {
            const float pair[2] = {low[i], high[i]};
            PackRun<D, true>(pair, 2, &out[i][c / 2]);
          }
        }
        QUANTD_UNROLL
        for (int i = 0; i < kBlock; ++i) {
          if (i >= rows) break;
          *reinterpret_cast<uint2*>(strip.out + i * strip.out_step) =
              make_uint2(out[i][0], out[i][1]);
        }
      }
    }
    if (!exact) DecodeStripAlone<D, E>(strip, scales, line, copy.signs);
  }
}

template <DType D, DType E>
cudaError_t Launch(const DecodeArgs& a, const Queue& queue) {
  const int64_t units = (a.list.cols + kColumns<D> - 1) / kColumns<D>;
  const int shift = TileShift(units, 5, 7);
  DecodeRotatedInPlace<D, E>
      <<<GridOf(((units - 1) >> shift) + 1, a.list.chunk_count << (shift - 5)),
         kThreads, 0, queue.stream>>>(a, shift);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchDecodeRotatedInPlace(const DecodeArgs& a,
                                       const Queue& queue) {
  return ForDecoding(a.params, [&](auto types) {
    using T = decltype(types);
    if constexpr (T::kScaling == Scaling::kMx &&
                  T::kElement != DType::kE2M1x2) {
      return Launch<T::kOutput, T::kElement>(a, queue);
    } else {
      return cudaErrorInvalidValue;
    }
  });
}

}  // namespace quantd::cuda
