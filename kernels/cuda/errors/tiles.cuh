// Computes error statistics of copies that are not rotated, tile by tile. A
// thread takes runs of rows, or runs of two neighbouring columns. One source
// for each input type includes this.
#ifndef QUANTD_KERNELS_CUDA_ERRORS_TILES_CUH_
#define QUANTD_KERNELS_CUDA_ERRORS_TILES_CUH_

#include "kernels/cuda/errors/by_definition.cuh"
#include "kernels/cuda/errors/plain_places.cuh"
#include "kernels/cuda/errors/plain_totals.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {

// CTAs for each multiprocessor, which limit the registers of a thread.
template <DType D>
inline constexpr int kCtas = 3;

// Counts a thread's share of a tile of a copy: runs of every kDown-th row, or
// runs of two columns at every kDown-th position. The functions return a mask
// of the runs that they have not counted, the first run in bit 0. In columns,
// pairs of bits stand for the runs of both columns.
template <DType D, DType E>
struct TileCounter {
  const EncodeParams& p;
  const std::byte* x;  // the group's first row
  CopyTask copy;
  PlainTotals<E>* totals;
  ErrorSums* shared;
  bool wants_scale;  // the totals need another scale

  struct Rows {
    static constexpr int kAcross = kTileSide / kRun;
    static constexpr int kDown = kThreads / kAcross;
  };
  struct Columns {
    static constexpr int kAcross = kTileSide / 2;
    static constexpr int kDown = kThreads / kAcross * kRun;
  };

  __device__ __forceinline__ uint32_t CountRows(int line, int at) const {
    constexpr int kDown = Rows::kDown;
    const uint32_t pitch = static_cast<uint32_t>(p.cols) * kSizeOf<D>;
    const auto codes_pitch = static_cast<uint32_t>(copy.data_line);
    const auto above = static_cast<uint32_t>(line);
    const std::byte* from = x + uint64_t{above} * pitch + at * kSizeOf<D>;
    const std::byte* codes = copy.data + uint64_t{above} * codes_pitch +
                             (E == DType::kE2M1x2 ? at / 2 : at);
    PlainFactors<E> factors(p, copy, false, line, at, kDown);
    if (wants_scale) totals->SetScale(factors.Next(line), shared);
    const int end = EndOf(copy.lines, line);
    uint32_t missed = 0;
#pragma unroll 1
    for (uint32_t bit = 1; line < end; line += kDown, bit *= 2) {
      RawBlock<D> raw;
      LoadRow<D>(from, &raw);
      uint32_t words[4] = {};
      LoadWords<E>(codes, words);
      const float factor = factors.Next(line);
      from += uint64_t{pitch} * kDown;
      codes += uint64_t{codes_pitch} * kDown;
      factors.Advance();
      uint32_t halves[8];
      Halves<E>(words, halves);
      const uint32_t flushed =
          FlushedOf<D, E, Half::kAlong>(raw.words, words, halves);
      uint32_t scaled[kRunWords<D, Half::kAlong>];
      ScaleWords<D>(totals->scale(), raw.words, scaled);
      if (!Count<Half::kAlong>(scaled, halves, flushed, factor)) missed |= bit;
    }
    return missed;
  }

  __device__ __forceinline__ uint32_t CountColumns(int line, int at) const {
    constexpr int kDown = Columns::kDown;
    const int pitch = static_cast<int>(p.cols) * kSizeOf<D>;
    const std::byte* from = x + int64_t{pitch} * at + line * kSizeOf<D>;
    CodesOfTwo<E> codes(copy, line, at);
    PlainFactors<E> factors(p, copy, true, line, at, kDown);
    if (wants_scale) totals->SetScale(factors.Next(line), shared);
    const int end = EndOf(copy.positions, at);
    uint32_t missed = 0;
#pragma unroll 1
    for (uint32_t bits = 1; at < end; at += kDown, bits *= 4) {
      if (at + kRun > copy.positions) {
        missed |= bits * 3;
        break;
      }
      uint32_t a[kRun];
      uint32_t b[kRun];
      LoadColumns<D>(from, pitch, a, b);
      uint32_t words_a[4] = {};
      uint32_t words_b[4] = {};
      codes.Load(words_a, words_b);
      const float factor_a = factors.Next(line);
      const float factor_b = factors.Other(line);
      from += int64_t{pitch} * kDown;
      codes.Advance(kDown);
      factors.Advance();
      uint32_t halves_a[8];
      uint32_t halves_b[8];
      Halves<E>(words_a, halves_a);
      Halves<E>(words_b, halves_b);
      const uint32_t flushed_a =
          FlushedOf<D, E, Half::kLow>(a, words_a, halves_a);
      const uint32_t flushed_b = FlushedOf<D, E, Half::kHigh>(
          D == DType::kF32 ? b : a, words_b, halves_b);
      ScaleWords<D>(totals->scale(), a, a);
      if (!Count<Half::kLow>(a, halves_a, flushed_a, factor_a)) missed |= bits;
      if (!Count<Half::kHigh>(D == DType::kF32 ? b : a, halves_b, flushed_b,
                              factor_b)) {
        missed |= bits * 2;
      }
    }
    return missed;
  }

 private:
  // The end of the tile that contains line or position `first`, at most
  // `count`.
  static __device__ __forceinline__ int EndOf(int64_t count, int first) {
    const int end = (first & -kTileSide) + kTileSide;
    return count < end ? static_cast<int>(count) : end;
  }

  // Counts the run in the elements H of scaled words. Returns false if it is
  // not ordinary.
  template <Half H, int N>
  __device__ __forceinline__ bool Count(const uint32_t (&scaled)[N],
                                        const uint32_t (&halves)[8],
                                        uint32_t flushed, float factor) const {
    const float scale = totals->scale();
    const auto value = [&](int i) {
      const float v = ElementOf<D, H>(scaled, i);
      return D == DType::kBF16 ? v : v * scale;
    };
    const auto decoded = [&](int i) {
      return ElementOf<DType::kF16, Half::kAlong>(halves, i);
    };
    return totals->template Add<D != DType::kF32>(
        value, decoded, factor, p.scaling == Scaling::kMx, flushed, shared);
  }
};

// Counts the errors of one or two copies. With two copies, neighbouring CTAs
// count the same tile of different copies, and the second one finds it in the
// cache.
template <DType D, DType E>
__global__ void __launch_bounds__(kThreads, kCtas<D>)
    CountErrorsOfTiles(const __grid_constant__ EncodeArgs a) {
  __shared__ ErrorSums shared;
  Clear(&shared);
  __syncthreads();
  using Counter = TileCounter<D, E>;
  const EncodeParams& p = a.params;
  const bool both =
      a.first.rowwise.data != nullptr && a.first.columnwise.data != nullptr;
  const bool columnwise =
      both ? blockIdx.x % 2 != 0 : a.first.columnwise.data != nullptr;
  const uint32_t step = both ? gridDim.x / 2 : gridDim.x;
  const auto tiles = static_cast<uint32_t>(TileCount(a.list));
  const auto across = static_cast<uint32_t>(TilesAcross(a.list));
  const auto thread = static_cast<int>(threadIdx.x);
  PlainTotals<E> totals;
  uint32_t counted = 0;
  bool wants_scale = true;
  for (uint32_t t = both ? blockIdx.x / 2 : blockIdx.x; t < tiles; t += step) {
    uint32_t chunk = t / across;
    const int col = static_cast<int>(t - chunk * across) * kTileSide;
    const GroupTask* group = &a.first;
    if (a.list.count != 1) {
      const int64_t g = FindEntry(a.list.chunks, a.list.count, chunk);
      group = a.list.groups + g;
      chunk -= static_cast<uint32_t>(a.list.chunks[g]);
    }
    const int row = static_cast<int>(chunk) * kTileSide;
    const Counter counter = {
        p,       group->x, columnwise ? group->columnwise : group->rowwise,
        &totals, &shared,  wants_scale};
    int line;
    int at;
    uint32_t missed = 0;
    if (columnwise) {
      using Place = typename Counter::Columns;
      line = col + thread % Place::kAcross * 2;
      at = row + thread / Place::kAcross * kRun;
      if (line < counter.copy.lines) missed = counter.CountColumns(line, at);
    } else {
      using Place = typename Counter::Rows;
      line = row + thread / Place::kAcross;
      at = col + thread % Place::kAcross * kRun;
      if (at < counter.copy.positions) missed = counter.CountRows(line, at);
    }
    wants_scale = missed != 0;
#pragma unroll 1
    while (missed != 0) {
      const int i = __ffs(static_cast<int>(missed)) - 1;
      missed &= missed - 1;
      if (columnwise) {
        CountByDefinition<D>(p, *group, true, line + i % 2,
                             at + i / 2 * Counter::Columns::kDown, &shared);
      } else {
        CountByDefinition<D>(p, *group, false, line + i * Counter::Rows::kDown,
                             at, &shared);
      }
    }
    // A thread has at most this many runs of a tile.
    constexpr uint32_t kRuns = kTileSide * kTileSide / kRun / kThreads;
    if (++counted % (PlainTotals<E>::kRuns / kRuns) == 0) totals.Empty(&shared);
  }
  totals.EmptyWarp(&shared);
  __syncthreads();
  AddTotals(shared, &a.sums[columnwise]);
}

template <DType D>
cudaError_t LaunchCountErrorsOfTilesOf(const EncodeArgs& a,
                                       const Queue& queue) {
  // The grid is even, so that each copy has half of the CTAs.
  const unsigned grid = GridFor(2 * TileCount(a.list), kCtas<D>, queue) & ~1u;
  const auto launch = [&](auto element) {
    CountErrorsOfTiles<D, decltype(element)::value>
        <<<grid, kThreads, 0, queue.stream>>>(a);
    return cudaGetLastError();
  };
  switch (a.params.element) {
    case DType::kE2M1x2:
      return launch(std::integral_constant<DType, DType::kE2M1x2>{});
    case DType::kE4M3:
      return launch(std::integral_constant<DType, DType::kE4M3>{});
    default:
      return launch(std::integral_constant<DType, DType::kE5M2>{});
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ERRORS_TILES_CUH_
