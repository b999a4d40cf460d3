// The frame, an encoder for plans without a tuned kernel. Tiles come through a
// ring in shared memory, values are in registers, and whole sectors are
// written. There is one kernel for each cell
// (kernels/cuda/encode/frame/cell.cuh). A warp takes sixteen lines of a tile, a
// lane half of a line. NOTES.md gives the reasons.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_ENCODE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_ENCODE_CUH_

#include <type_traits>

#include "kernels/cuda/encode/frame/copy.cuh"
#include "kernels/cuda/encode/frame/rotated/in_place.cuh"
#include "kernels/cuda/encode/frame/rotated/lines.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tile/column_sums.cuh"

namespace quantd::cuda {

// Rotates a copy's lines into the team's memory. Columns of 16-bit elements
// must already be there, as rows. Returns Seen bits.
template <typename C, int kBytes>
__device__ __forceinline__ uint32_t RotateCopy(const Turn<C, kBytes>& t,
                                               bool columns) {
  const int dimension = t.group.copy(columns).task.rotation;
  StagedTile* const lines = &t.team->lines;
  const auto rotate = [&](const auto& load) {
    return RotateLines<kBytes>(load, dimension, t.signs, lines);
  };
  using Values = float[Quarter::kLength];
  bool special;
  if constexpr (kBytes == 2) {
    const StagedTile& source = columns ? *lines : t.tile;
    special = rotate([&](const Quarter& q, Values& v) {
      LoadQuarter(source, q, t.p.input, v);
    });
  } else if (columns) {
    special = rotate(
        [&](const Quarter& q, Values& v) { LoadQuarter<true>(t.tile, q, v); });
  } else {
    special = rotate(
        [&](const Quarter& q, Values& v) { LoadQuarter<false>(t.tile, q, v); });
  }
  return special ? SeenInTile<kBytes>(t.tile, columns, t.p.input) : 0;
}

// Encodes the copies of a cell that rotates. One copy may be unrotated. Calls
// `release` once, when the tile is no longer needed. Returns Seen bits.
template <typename C, int kBytes, typename Release>
__device__ __forceinline__ uint32_t EncodeRotating(const Turn<C, kBytes>& t,
                                                   const Release& release) {
  uint32_t seen = 0;
  // Both copies share one piece of code, because all code for a tile must stay
  // in the instruction caches.
#pragma unroll 1
  for (int i = 0; i < 2; ++i) {
    const bool columns = i == 1;
    if (!t.group.wants(columns)) continue;
    const CopyTask& copy = t.group.copy(columns).task;
    const bool rotated = copy.signs != nullptr;
    if (rotated) {
      if constexpr (kBytes == 2) {
        if (columns) TransposeColumns(t.tile, &t.team->lines);
      }
      seen |= RotateCopy(t, columns);
    } else if (!columns) {
      seen |= EncodeCopy<C, kBytes, false>(t);
    } else {
      seen |= EncodeCopy<C, kBytes, true>(t);
    }
    if (columns || !t.group.wants(true)) release();
    if (!rotated) continue;
    const LaneValues<2, false> values(t.team->lines, t.team->exchange);
    if constexpr (C::kMxFp8) {
      if (columns) {
        EncodeRotatedInPlace<C>(t.p, t.team->lines, t.at, copy);
      } else {
        EncodeMxRows(t, values, DType::kBF16);
      }
      continue;
    }
    if constexpr (C::kPairs) {
      if (GoesByPairs<C>(copy)) {
        EncodeLinesByPairs(t, columns, values, DType::kBF16);
        continue;
      }
    }
    EncodeLines<C, kBytes>(t, columns, values, DType::kBF16);
  }
  return seen;
}

// --- squares ----------------------------------------------------------------

// Finds the scales of a tile's squares of 16 x 16 for both copies, or the
// maxima of a square of 128 x 128. All threads of the team must call this.
template <typename C, int kBytes>
__device__ __forceinline__ void SettleSquares(const Turn<C, kBytes>& t) {
  const LaneValues<kBytes, false> values(t.tile,
                                         &t.team->exchange[Team::warp()]);
  const uint32_t lane = threadIdx.x % kWarp;
  if constexpr (C::kLength == 128) {
    Largest largest = LargestOfHalfLine(values, t.p.input);
    largest.Reduce(16, 1);
    if (lane == 0) {
      t.team->tile_max[t.buffer][Team::warp()] = largest.max;
      t.team->tile_clean[t.buffer][Team::warp()] = largest.clean;
    }
  } else {
    const bool rows = t.group.wants(false);
    const bool columns = t.group.wants(true);
    uint32_t row_scales = 0;
    uint32_t column_scales = 0;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      float v[kBlock];
      const uint32_t m = values.LoadAndFindMax(i, t.p.input, v);
      Largest largest;
      largest.Add(v, 0, kBlock, m);
      largest.Reduce(8, 1);
      const auto settled = [&](const FrameCopy<C>& copy) {
        if constexpr (C::kPicks) {
          return PickCode<C>(t.a.params, t.p, copy.line, copy.errors, v,
                             largest.max, largest.clean);
        } else {
          return C::ScaleOf(t.p, copy.line, largest.max, largest.clean).stored;
        }
      };
      uint32_t row = 0;
      uint32_t column = 0;
      if (rows) row = settled(t.group.copy(false));
      if (columns) {
        column =
            rows && t.group.same_amax() ? row : settled(t.group.copy(true));
      }
      row_scales = row_scales >> 8 | row << 24;
      column_scales = column_scales >> 8 | column << 24;
    }
    if (lane % kBlock == 0) {
      t.team->SetSquares(t.buffer, Team::warp(), lane / kBlock, row_scales,
                         column_scales);
    }
  }
  Team::Sync();
}

// --- kernel -----------------------------------------------------------------

// Streams for cells with and without rotation, and for element sizes. Rotated
// lines take shared memory, which leaves less for tiles.
template <bool kRotates, int kBytes>
struct FrameStreams {
  using Large = TileStream<2, 4, kStack>;
  using Medium = TileStream<2, 3, kStack>;
  using Small = TileStream<1, 2, kStack>;
};
template <>
struct FrameStreams<false, 4> {
  using Large = TileStream<2, 3, kStack, 4>;
  using Medium = TileStream<1, 2, kStack, 4>;
  using Small = TileStream<1, 1, kStack, 4>;
};
template <>
struct FrameStreams<true, 2> {
  using Large = TileStream<2, 3, kStack, 2, 112>;
  using Medium = TileStream<1, 3, kStack>;
  using Small = TileStream<1, 1, kStack>;
};
template <>
struct FrameStreams<true, 4> {
  using Large = TileStream<2, 2, kStack, 4, 112>;
  using Medium = TileStream<1, 1, kStack, 4>;
  using Small = Medium;  // does not fit: see LaunchFrameOf
};
template <typename C, int kBytes, SharedMemory kSize,
          typename Streams = FrameStreams<C::kRht, kBytes>>
using FrameStream = BySize<kSize, typename Streams::Large,
                           typename Streams::Medium, typename Streams::Small>;

template <typename C, int kBytes, SharedMemory kSize>
struct FrameShared {
  using Stream = FrameStream<C, kBytes, kSize>;
  typename Stream::Tiles tiles;
  FrameState<C, kBytes> teams[Stream::kTeams];
  typename Stream::Control control;
  alignas(16) float signs[kTileSide];

  __device__ __forceinline__ void Begin() {}
};

// Returns a Place that stays valid after the warp releases the tile, if the
// cell needs that.
template <typename C, int kBytes>
__device__ __forceinline__ const Place& PlaceOf(const Place& at,
                                                FrameState<C, kBytes>* team) {
  if constexpr (!C::kRht) return at;
  Place& own = team->places[Team::warp()];
  __syncwarp();  // waits until the previous content has been read
  if (threadIdx.x % kWarp == 0) own = at;
  __syncwarp();
  return own;
}

// Sums the columns, for dbias.
template <int kBytes>
__device__ __forceinline__ void SumTile(const EncodeArgs& a, DType input,
                                        const StagedTileOf<kBytes>& tile,
                                        const Place& at, unsigned turn) {
  float* const partial =
      (a.list.count == 1 ? a.first : a.list.groups[at.group]).partial;
  if constexpr (kBytes == 4) {
    SumColumns<DType::kF32>(tile, at, a.list.cols, partial, turn);
  } else if (input == DType::kBF16) {
    SumColumns<DType::kBF16>(tile, at, a.list.cols, partial, turn);
  } else {
    SumColumns<DType::kF16>(tile, at, a.list.cols, partial, turn);
  }
}

template <typename C, int kBytes, SharedMemory kSize>
__global__ void __launch_bounds__(FrameStream<C, kBytes, kSize>::kCtaThreads, 1)
    EncodeFrame(const __grid_constant__ EncodeArgs a,
                const __grid_constant__
                typename FrameStream<C, kBytes, kSize>::Source source,
                const __grid_constant__ FrameRandom<C::kDraws> random) {
  using Shared = FrameShared<C, kBytes, kSize>;
  RunTileStream<kSize, Shared>(a, source, [&](Shared& shared, auto& stream) {
    FrameState<C, kBytes>& team = shared.teams[Team::number()];
    const EncodeParams p = C::Known(a.params);
    if constexpr (C::kRht) {
      // All teams write the same values.
      const float* const signs = a.first.rowwise.signs != nullptr
                                     ? a.first.rowwise.signs
                                     : a.first.columnwise.signs;
      const auto i = static_cast<int>(Team::thread());
      if (i < kTileSide) shared.signs[i] = signs[i % a.rotation];
    }
    const bool alone = a.list.count == 1;
    FrameGroup<C> group(a, p, &team.group);
    uint32_t seen = 0;
    for (int k = 0; stream.Receive(alone); ++k) {
      const Place& at = PlaceOf(stream.place(), &team);
      group.Enter(at.group);
      if (a.dbias) SumTile<kBytes>(a, p.input, stream.tile(), at, k);
      const Turn<C, kBytes> turn = {
          a, p, stream.tile(), at, group, &team, shared.signs, random, k % 2};
      if constexpr (C::kRht) {
        seen |= EncodeRotating(turn, [&] { stream.Release(); });
      } else {
        if constexpr (C::kSquare) SettleSquares(turn);
        if (group.wants(false)) seen |= EncodeCopy<C, kBytes, false>(turn);
        if constexpr (!C::kOther) {
          if (group.wants(true)) seen |= EncodeCopy<C, kBytes, true>(turn);
        }
        stream.Release();
      }
    }
    Report(seen, a.seen);
  });
}

template <typename C, int kBytes>
cudaError_t LaunchFrameOf(const EncodeArgs& a, const Queue& queue) {
  return ForSharedMemory(queue, [&](auto size) {
    using Shared = FrameShared<C, kBytes, size()>;
    // ChooseKernels chooses EncodeSpans for cells that do not fit.
    constexpr bool kFits =
        !C::kRht || kBytes == 2 || size() != SharedMemory::kSmall;
    static_assert(kFits == (sizeof(Shared) <= BytesOf(size())));
    if constexpr (kFits) {
      return LaunchTileStream<size(), Shared>(&EncodeFrame<C, kBytes, size()>,
                                              a, queue,
                                              FrameRandom<C::kDraws>(a.params));
    } else {
      return cudaErrorInvalidValue;
    }
  });
}
template <typename C>
cudaError_t LaunchFrame(const EncodeArgs& a, const Queue& queue) {
  return a.params.input == DType::kF32 ? LaunchFrameOf<C, 4>(a, queue)
                                       : LaunchFrameOf<C, 2>(a, queue);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_ENCODE_CUH_
