// The frame: tiles through a ring in shared memory, values in registers, whole
// sectors out. One kernel for a cell (kernels/cuda/encode/frame/cell.cuh); a
// warp takes sixteen lines of a tile, a lane half of one. NOTES.md says why.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_ENCODE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_ENCODE_CUH_

#include "kernels/cuda/encode/frame/in_place.cuh"
#include "kernels/cuda/encode/frame/largest.cuh"
#include "kernels/cuda/encode/frame/pick.cuh"
#include "kernels/cuda/encode/frame/team_group.cuh"

namespace quantd::cuda {

// What a warp of a team works with.
template <typename C>
using FrameCopy = FrameCopyOf<C>;
template <typename C, int kBytes>
struct Turn {
  const EncodeArgs& a;
  const EncodeParams& p;  // C::Known
  const StagedTileOf<kBytes>& tile;
  const Place& at;
  const FrameGroup<C>& group;
  FrameState<C, kBytes>* team;
  const float* signs;
  int buffer;  // of the squares: teams take turns with two
};

// --- one copy of a warp's lines ---------------------------------------------

// kRotated: whether the copy is; of a cell that rotates, one need not be.
template <typename C, int kBytes, bool kColumns, bool kRotated>
__device__ __forceinline__ uint32_t EncodeLines(const Turn<C, kBytes>& t) {
  const EncodeParams& p = t.p;
  const FrameCopy<C>& own = t.group.copy(kColumns);
  const CopyTask& copy = own.task;
  const uint32_t lane = threadIdx.x % kWarp;
  const uint32_t first = Team::warp() * kBlock;
  const int lines =
      (kColumns ? t.at.cols : t.at.rows) - static_cast<int>(first);
  if (lines <= 0) return 0;
  const int64_t first_line = int64_t{kColumns ? t.at.col : t.at.row} + first;
  const int64_t line = first_line + lane % kBlock;
  const int64_t position = kColumns ? t.at.row : t.at.col;
  const int64_t own_position = position + lane / kBlock * 64;
  // (Lines beyond the copy get the last one's.)
  LineScale<Scalar> of_line = own.line;
  if (HasAmaxOfLines(copy)) {
    const int64_t l = line < copy.lines ? line : copy.lines - 1;
    of_line = C::LineOf(p, copy.amax[l * copy.amax_line], 1.0f);
  }
  const LaneValues<kBytes, kColumns> values(t.tile,
                                            &t.team->exchange[Team::warp()]);

  // One scale for all of the lane's values: of the line, or of 128.
  BlockScale<Scalar> whole = {};
  OtherFp8 other;
  uint32_t max = kInfBits - 1;
  if constexpr (C::kLength == 0) {
    whole = C::Under(p, of_line, 0);
    if constexpr (C::kOther) other = HowToFp8(p, whole.m);
    if (p.scaling == Scaling::kChannel && position == 0 && lane < kBlock &&
        static_cast<int>(lane) < lines) {
      StoreScale(p, copy, line, 0, C::Stored(p, Scalar::Bits(of_line.scale)));
    }
  } else if constexpr (C::kLength == 128) {
    Largest largest;
    if constexpr (C::kSquare) {
      QUANTD_UNROLL
      for (int w = 0; w < Team::kWarps; ++w) {
        const uint32_t m = t.team->tile_max[t.buffer][w];
        const uint32_t n = t.team->tile_clean[t.buffer][w];
        largest.max = m > largest.max ? m : largest.max;
        largest.clean = n > largest.clean ? n : largest.clean;
      }
    } else {
      largest = LargestOfHalfLine(values, p.input);
      largest.Reduce(16, 16);
    }
    whole = C::ScaleOf(p, of_line, largest.max, largest.clean);
    max = largest.max;
    if constexpr (C::kOther) {
      other = C::kSquare ? HowToManyFp8(p, whole.m) : HowToFp8(p, whole.m);
    }
    if (lane < kBlock && static_cast<int>(lane) < lines &&
        position < copy.padded) {
      StoreScale(p, copy, line, position / 128, C::Stored(p, whole.stored));
    }
  }
  uint32_t squares = 0;
  if constexpr (C::kSquare && C::kLength == 16) {
    squares = t.team->template SquaresOf<kColumns>(t.buffer);
  }

  const bool partial = own_position + 64 > copy.positions;
  const bool whole_lines = lines >= kBlock && position + 128 <= copy.padded &&
                           own.lines.is(LineTask::kAlignedCodes);
  const LineCodes codes(&t.team->codes[Team::warp()]);
  const LineBytes bytes(&t.team->codes[Team::warp()]);
  uint32_t scales = 0;
  uint32_t seen_max = 0;
  constexpr int kSpan = kRotated ? 4 : 2;  // sixteens at a time
  // Maxima of two elements at once, where that leaves registers enough.
  constexpr bool kFindsEarly = !kRotated && !(C::kFp8 && C::kMx);
#pragma unroll 1
  for (int s = 0; s < 4; s += kSpan) {
    float v[kSpan][kBlock];
    auto& flat = reinterpret_cast<float(&)[kSpan * kBlock]>(v);
    uint32_t found[kSpan] = {};  // of values as they come
    QUANTD_UNROLL
    for (int j = 0; j < kSpan; ++j) {
      if constexpr (!kFindsEarly) {
        values.Load(s + j, p.input, v[j]);
      } else {
        found[j] = values.LoadAndFindMax(s + j, p.input, v[j]);
      }
    }
    if constexpr (kRotated) {
      RotateHalfLine(flat, copy.rotation, t.signs);
      const Rotated<kSpan * kBlock> rotated(flat);
      QUANTD_UNROLL
      for (int i = 0; i < kSpan * kBlock; ++i) flat[i] = rotated[i];
    }
    const auto largest_of = [&](int j) {
      if constexpr (!kFindsEarly) return LargestMagnitude(v[j], 0, kBlock);
      return found[j];
    };
    BlockScale<Scalar> scale = whole;
    QUANTD_UNROLL
    for (int j = 0; j < kSpan; ++j) {
      const uint32_t i = static_cast<uint32_t>(s + j);
      if constexpr (C::kLength == 16 || C::kLength == 32) {
        constexpr int kSixteens = C::kLength / kBlock;
        if (j % kSixteens == 0) {
          max = largest_of(j);
          if constexpr (kSixteens == 2) {
            const uint32_t second = largest_of(j + 1);
            max = second > max ? second : max;
          }
          Largest largest;
          largest.Add(flat, j * kBlock, C::kLength, max);
          if constexpr (C::kSquare) {
            scale = C::Under(p, of_line, squares & 0xFFu);
            squares >>= 8;
          } else if constexpr (C::kPicks) {
            scale = PickScale<C>(t.a.params, p, of_line, own.errors, v[j],
                                 largest.max, largest.clean);
          } else {
            scale = C::ScaleOf(p, of_line, largest.max, largest.clean);
          }
          scales = scales >> 8 | scale.stored << 24;
        }
        if constexpr (C::kFp8 && C::kOther) other = HowToFp8(p, scale.m);
      } else if constexpr (C::kLength == 0) {
        max = largest_of(j);
      }
      seen_max = max > seen_max ? max : seen_max;
      if constexpr (C::kFp8) {
        Sixteen w;
        if constexpr (C::kOther) {
          w = EncodeOtherFp8(p, t.a.params, v[j], other, max);
        } else {
          w = EncodeFp8(p, v[j], scale.m);
        }
        bytes.Set(static_cast<uint32_t>(j % 2), w);
        if (j % 2 == 1) {
          bytes.Store(p, copy, whole_lines, first_line, position, (s + j) / 2);
        }
      } else {
        Sixteen w;
        if (p.stochastic) {
          uint32_t random[4];
          t.group.Draw(p, kColumns, line, own_position + 16 * i, random);
          w = EncodeE2M1Values<C>(p, t.a.params, v[j], scale.m, max, &random);
        } else {
          w = EncodeE2M1Values<C>(p, t.a.params, v[j], scale.m, max, nullptr);
        }
        if (partial && !kRotated) {
          KeepCodes<Scalar>(copy.positions - (own_position + 16 * i), w.words);
        }
        if (C::kOther && p.numerics.high_first) {
          w.words[0] = SwapNibbles<Scalar>(w.words[0]);
          w.words[1] = SwapNibbles<Scalar>(w.words[1]);
        }
        codes.Set(i, make_uint2(w.words[0], w.words[1]));
      }
    }
  }

  if constexpr (!C::kFp8) {
    const auto block = static_cast<uint32_t>(position / kBlock);
    const LinePlace place = {static_cast<uint32_t>(first_line), block, lines,
                             own.lines.blocks() - static_cast<int>(block)};
    cuda::StoreCodes(own.lines, place, codes);
    __syncwarp();
  }
  if constexpr (C::kByteScales) {
    if constexpr (C::kLength == 32) scales >>= 16;
    const uint32_t word = WordOfScales<C::kLength>(scales);
    StoreByteScales<C::kLength>(p, copy, own.lines, first_line, position, lines,
                                word);
  }
  return __any_sync(0xFFFFFFFFu, seen_max >= kInfBits)
             ? SeenInHalfLine<kBytes, kColumns>(values, p.input)
             : 0;
}

template <typename C, int kBytes, bool kColumns>
__device__ __forceinline__ uint32_t EncodeCopy(const Turn<C, kBytes>& t) {
  if constexpr (kColumns && C::kMx && C::kFp8) {
    return EncodeColumnsInPlace<C, kBytes>(t.p, t.tile, t.at,
                                           t.group.copy(true).task, t.signs);
  } else {
    if constexpr (C::kRht) {
      if (t.group.copy(kColumns).task.signs != nullptr) {
        return EncodeLines<C, kBytes, kColumns, true>(t);
      }
    }
    return EncodeLines<C, kBytes, kColumns, false>(t);
  }
}

// --- squares ----------------------------------------------------------------

// Settles the scales of a tile's squares, which lines of both copies share. All
// threads of the team must call this.
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
          return PickScaleOfSquare<C>(t.a.params, t.p, copy.line, copy.errors,
                                      v, largest.max, largest.clean);
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

template <typename C, int kBytes, SharedMemory kSize>
using FrameStream =
    BySize<kSize,
           std::conditional_t<kBytes == 4,
                              TileStream<2, 3, kStack, 4, C::kRht ? 112 : 0>,
                              TileStream<2, 4, kStack, 2, C::kRht ? 112 : 0>>,
           std::conditional_t<kBytes == 4, TileStream<1, 2, kStack, 4>,
                              TileStream<2, 3, kStack>>,
           std::conditional_t<kBytes == 4, TileStream<1, 1, kStack, 4>,
                              TileStream<1, 2, kStack>>>;

template <typename C, int kBytes, SharedMemory kSize>
struct FrameShared {
  using Stream = FrameStream<C, kBytes, kSize>;
  typename Stream::Tiles tiles;
  FrameState<C, kBytes> teams[Stream::kTeams];
  typename Stream::Control control;
  alignas(16) float signs[kTileSide];

  __device__ __forceinline__ void Begin() {}
};

template <typename C, int kBytes, SharedMemory kSize>
__global__ void __launch_bounds__(FrameStream<C, kBytes, kSize>::kCtaThreads, 1)
    EncodeFrame(const __grid_constant__ EncodeArgs a,
                const __grid_constant__ TensorMap map) {
  using Shared = FrameShared<C, kBytes, kSize>;
  RunTileStream<kSize, Shared>(a, map, [&](Shared& shared, auto& stream) {
    FrameState<C, kBytes>& team = shared.teams[Team::number()];
    const EncodeParams p = C::Known(a.params);
    if constexpr (C::kRht) {
      // Teams write the same.
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
      const Place& at = stream.place();
      group.Enter(at.group);
      const Turn<C, kBytes> turn = {a,     p,     stream.tile(), at,
                                    group, &team, shared.signs,  k % 2};
      if constexpr (C::kSquare) SettleSquares(turn);
      if (group.wants(false)) seen |= EncodeCopy<C, kBytes, false>(turn);
      if constexpr (!C::kOther) {
        if (group.wants(true)) seen |= EncodeCopy<C, kBytes, true>(turn);
      }
      stream.Release();
    }
    Report(seen, a.seen);
  });
}

template <typename C, int kBytes>
cudaError_t LaunchFrame(const EncodeArgs& a, const Queue& queue) {
  return ForSharedMemory([&](auto size) {
    return LaunchTileStream<size(), FrameShared<C, kBytes, size()>>(
        &EncodeFrame<C, kBytes, size()>, a, queue);
  });
}
template <typename C>
cudaError_t LaunchFrameOf(const EncodeArgs& a, const Queue& queue) {
  return a.params.input == DType::kF32 ? LaunchFrame<C, 4>(a, queue)
                                       : LaunchFrame<C, 2>(a, queue);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_ENCODE_CUH_
