// Decodes copies whose codes have the order of the output. A thread decodes
// units, which are the columns that fill 16 bytes of an output row. Threads
// exchange no data.
#include "kernels/cuda/decode/decode.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

// Units that a thread loads at once, each `step` rows below the last one.
constexpr int kSteps = 8;
constexpr int kStepsInPlace = 4;

// The position of a thread in tiles that are 2^shift units wide.
template <DType D>
struct Place {
  int row;
  int64_t col;

  __device__ explicit Place(int shift)
      : row(static_cast<int>(threadIdx.x >> shift)),
        col(((int64_t{blockIdx.x} << shift) +
             (threadIdx.x & ((1u << shift) - 1))) *
            kUnit<D>) {}
};

template <DType D, DType E>
inline constexpr int kUnitBytes = kUnit<D> / (E == DType::kE2M1x2 ? 2 : 1);

// Whether every unit of the group can be loaded and stored without bounds
// checks.
template <DType D, DType E>
__device__ __forceinline__ bool IsWhole(const Chunk& chunk, int64_t cols,
                                        int64_t code_row) {
  const auto codes = reinterpret_cast<uintptr_t>(chunk.copy.data) |
                     static_cast<uintptr_t>(code_row);
  return cols % kUnit<D> == 0 && IsAligned(chunk.out) &&
         codes % kUnitBytes<D, E> == 0;
}

template <DType D, DType E>
__device__ __forceinline__ void LoadUnit(const std::byte* from, bool whole,
                                         int64_t count, uint32_t* words) {
  if (E == DType::kE2M1x2 || whole) {
    // Lines of E2M1 are whole blocks, so units are aligned and complete.
    if constexpr (kUnitBytes<D, E> == 2) {
      words[0] = *reinterpret_cast<const uint16_t*>(from);
    } else if constexpr (kUnitBytes<D, E> == 4) {
      words[0] = *reinterpret_cast<const uint32_t*>(from);
    } else {
      const uint2 codes = *reinterpret_cast<const uint2*>(from);
      words[0] = codes.x;
      words[1] = codes.y;
    }
    return;
  }
  uint64_t codes = 0;
  const int end = count < kUnit<D> ? static_cast<int>(count) : kUnit<D>;
#pragma unroll 1
  for (int i = end - 1; i >= 0; --i) {
    codes = codes << 8 | static_cast<uint64_t>(from[i]);
  }
  words[0] = static_cast<uint32_t>(codes);
  if constexpr (kCodeWords<D, E> == 2) {
    words[1] = static_cast<uint32_t>(codes >> 32);
  }
}

// --- kernels ----------------------------------------------------------------

// Decodes a rowwise copy. With kLineAmax each row has its own amax.
template <DType D, DType E, Scaling S, bool kLineAmax>
__global__ void __launch_bounds__(kThreads)
    DecodeRows(const __grid_constant__ DecodeArgs a, int shift) {
  const Place<D> place(shift);
  const int64_t cols = a.list.cols;
  if (place.col >= cols) return;
  const int64_t count = cols - place.col;
  const int step = kThreads >> shift;
  // A tile is kSteps * step rows high. A chunk has 2^parts tiles.
  const int parts = shift - 4;
  static_assert(kTileSide == 128 && kThreads == 256 && kSteps == 8);
  const int64_t tiles = a.list.chunk_count << parts;
  for (int64_t t = blockIdx.y; t < tiles; t += gridDim.y) {
    const Chunk chunk = FindChunk(a, false, t >> parts);
    const CopyTask& copy = chunk.copy;
    const int part = static_cast<int>(t) & ((1 << parts) - 1);
    const int first = part * (kSteps * step) + place.row;
    if (first >= chunk.rows) continue;
    const int64_t row = chunk.row + first;
    const std::byte* codes = copy.data + row * copy.data_line +
                             (E == DType::kE2M1x2 ? place.col / 2 : place.col);
    const int64_t codes_step = step * copy.data_line;
    std::byte* out = chunk.out + (row * cols + place.col) * kSizeOf<D>;
    const int64_t out_step = step * cols * kSizeOf<D>;
    int64_t number = 0;
    if constexpr (S != Scaling::kTensor) number = place.col / kPositions<S>;
    const LineScaleAddress scales(copy, chunk.row, number, kScaleSize<S>);
    const bool whole = IsWhole<D, E>(chunk, cols, copy.data_line);
    bool plain = whole;
    if (whole) {
      // All loads come first: none depends on another one's result.
      uint32_t words[kSteps][kCodeWords<D, E>] = {};
      uint32_t stored[kSteps] = {};
      const std::byte* from = codes;
      QUANTD_UNROLL
      for (int i = 0; i < kSteps; ++i) {
        if (first + i * step < chunk.rows) {
          LoadUnit<D, E>(from, true, count, words[i]);
        }
        from += codes_step;
      }
      if constexpr (S != Scaling::kTensor) {
        const auto load = [&](auto at) {
          QUANTD_UNROLL
          for (int i = 0; i < kSteps; ++i) {
            const int line = first + i * step;
            if (line < chunk.rows) stored[i] = LoadStored<S>(at(line));
          }
        };
        if (copy.swizzled) {
          load([&](int line) { return scales.Swizzled(line); });
        } else {
          load([&](int line) { return scales.Linear(line); });
        }
      }
      Factors<S> factors(copy, a.params.range, row);
      float factor[kSteps];
      QUANTD_UNROLL
      for (int i = 0; i < kSteps; ++i) {
        if (kLineAmax && i > 0 && first + i * step < chunk.rows) {
          factors = {copy, a.params.range, row + i * step};
        }
        factor[i] = factors.Of(stored[i]);
        plain &= IsPlain<E, kCodeWords<D, E>>(words[i], factor[i]);
      }
      if (plain) {
        QUANTD_UNROLL
        for (int i = 0; i < kSteps; ++i) {
          if (first + i * step >= chunk.rows) break;
          uint32_t v[kOutWords];
          DecodePlain<D, E, 1>(words[i], factor[i], v);
          StoreUnit<D>(v, true, count, out);
          out += out_step;
        }
        continue;
      }
    }
#pragma unroll 1
    for (int i = 0; i < kSteps && first + i * step < chunk.rows; ++i) {
      uint32_t words[kCodeWords<D, E>];
      LoadUnit<D, E>(codes, whole, count, words);
      const Factors<S> factors(copy, a.params.range, row + i * step);
      const float factor =
          factors.Of(LoadStored<S>(scales.At(first + i * step)));
      uint32_t v[kOutWords];
      DecodeBy<D, E, 1, 0, false>(words, &factor, v);
      StoreUnit<D>(v, whole, count, out);
      codes += codes_step;
      out += out_step;
    }
  }
}

// Decodes columnwise MXFP8. Blocks lie along the columns, so each of a thread's
// columns has a factor.
template <DType D, DType E>
__global__ void __launch_bounds__(kThreads)
    DecodeColumnsInPlace(const __grid_constant__ DecodeArgs a, int shift) {
  constexpr int kRows = kPositions<Scaling::kMx>;
  constexpr int kParts = kTileSide / kRows;
  const Place<D> place(shift);
  const int64_t cols = a.list.cols;
  if (place.col >= cols) return;
  const int64_t count = cols - place.col;
  const int step = kThreads >> shift;
  for (int64_t t = blockIdx.y; t < a.list.chunk_count * kParts;
       t += gridDim.y) {
    const Chunk chunk = FindChunk(a, true, t / kParts);
    const CopyTask& copy = chunk.copy;
    const int first = static_cast<int>(t % kParts) * kRows;
    const int rows = chunk.rows - first < kRows ? chunk.rows - first : kRows;
    if (place.row >= rows) continue;
    const bool whole = IsWhole<D, E>(chunk, cols, copy.data_position);
    float factors[kUnit<D>];
    bool finite = true;
    // These lines are neighbours, all within one tile of a swizzled layout.
    const LineScaleAddress scales(copy, place.col & -kTileSide,
                                  (chunk.row + first) / kRows, 1);
    QUANTD_UNROLL
    for (int i = 0; i < kUnit<D>; ++i) {
      const int at = static_cast<int>(place.col & (kTileSide - 1));
      factors[i] = DecodeE8M0<Scalar>(
          LoadStored<Scaling::kMx>(scales.At(i < count ? at + i : at)));
      finite &= IsFinite(factors[i]);
    }
    const int64_t row = chunk.row + first + place.row;
    const std::byte* codes = copy.data + row * copy.data_position + place.col;
    std::byte* out = chunk.out + (row * cols + place.col) * kSizeOf<D>;
    const int64_t codes_step = step * copy.data_position;
    const int64_t out_step = step * cols * kSizeOf<D>;
#pragma unroll 1
    for (int base = place.row; base < rows; base += kStepsInPlace * step) {
      bool plain = finite && whole;
      if (plain) {
        uint32_t words[kStepsInPlace][kCodeWords<D, E>];
        uint32_t special = 0;
        QUANTD_UNROLL
        for (int i = 0; i < kStepsInPlace; ++i) {
          const int64_t at = base + i * step < rows ? i : 0;
          LoadUnit<D, E>(codes + at * codes_step, true, count, words[i]);
        }
        QUANTD_UNROLL
        for (int i = 0; i < kStepsInPlace; ++i) {
          for (const uint32_t word : words[i]) special |= SpecialBits<E>(word);
        }
        plain = special == 0;
        QUANTD_UNROLL
        for (int i = 0; i < kStepsInPlace; ++i) {
          if (!plain || base + i * step >= rows) break;
          uint32_t v[kOutWords];
          DecodeBy<D, E, 1, 1, true>(words[i], factors, v);
          StoreUnit<D>(v, true, count, out + i * out_step);
        }
      }
#pragma unroll 1
      for (int i = 0; i < kStepsInPlace; ++i) {
        if (plain || base + i * step >= rows) break;
        uint32_t words[kCodeWords<D, E>];
        LoadUnit<D, E>(codes + i * codes_step, whole, count, words);
        uint32_t v[kOutWords];
        DecodeBy<D, E, 1, 1, false>(words, factors, v);
        StoreUnit<D>(v, whole, count, out + i * out_step);
      }
      codes += kStepsInPlace * codes_step;
      out += kStepsInPlace * out_step;
    }
  }
}

// --- launchers --------------------------------------------------------------

// The number of units in a row.
template <DType D>
int64_t UnitsOf(const DecodeArgs& a) {
  return (a.list.cols + kUnit<D> - 1) / kUnit<D>;
}

template <DType D, DType E, Scaling S>
cudaError_t LaunchRows(const DecodeArgs& a, const Queue& queue) {
  const int64_t units = UnitsOf<D>(a);
  const int shift = TileShift(units, 4, 7);
  const dim3 grid =
      GridOf(((units - 1) >> shift) + 1, a.list.chunk_count << (shift - 4));
  if constexpr (S == Scaling::kNvfp4) {
    if (a.only.rowwise.amax_line != 0) {
      DecodeRows<D, E, S, true><<<grid, kThreads, 0, queue.stream>>>(a, shift);
      return cudaGetLastError();
    }
  }
  DecodeRows<D, E, S, false><<<grid, kThreads, 0, queue.stream>>>(a, shift);
  return cudaGetLastError();
}

template <DType D, DType E>
cudaError_t LaunchColumnsInPlace(const DecodeArgs& a, const Queue& queue) {
  const int64_t units = UnitsOf<D>(a);
  const int shift = TileShift(units, 4, 6);
  const int64_t tiles =
      a.list.chunk_count * (kTileSide / kPositions<Scaling::kMx>);
  DecodeColumnsInPlace<D, E><<<GridOf(((units - 1) >> shift) + 1, tiles),
                               kThreads, 0, queue.stream>>>(a, shift);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchDecodeRows(const DecodeArgs& a, const Queue& queue) {
  return ForDecoding(a.params, [&](auto types) {
    using T = decltype(types);
    return LaunchRows<T::kOutput, T::kElement, T::kScaling>(a, queue);
  });
}

cudaError_t LaunchDecodeColumnsInPlace(const DecodeArgs& a,
                                       const Queue& queue) {
  return ForDecoding(a.params, [&](auto types) {
    using T = decltype(types);
    if constexpr (T::kScaling == Scaling::kMx &&
                  T::kElement != DType::kE2M1x2) {
      return LaunchColumnsInPlace<T::kOutput, T::kElement>(a, queue);
    } else {
      return cudaErrorInvalidValue;
    }
  });
}

}  // namespace quantd::cuda
