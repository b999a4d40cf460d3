// Encodes NVFP4 by tiles of 128 x 128, with any Coding. A tile is read once
// into shared memory. Each warp takes sixteen lines of it and does not wait for
// others.
//
// A Coding computes the codes. It has
//   kType         the type of elements
//   Table         a table that is made for an amax
//   Launched      values of a launch, constructed from the arguments
//   kTeams        the number of teams of a CTA
//   kSquare       whether half of a warp is a square with one scale; then
//                 nothing is rotated
//   kSmallGroups  whether small groups have kernels of their own
//   kPicks        whether it finds scales itself
//   kMayNotFit    whether there is also a Codes<false>
//   kPairs        whether Codes uses MagnitudesOf, whose results are then
//                 shared, and leaves registers for two rotated blocks at a
//                 time; its calls may then be in any order
//   Lines         encodes sixteen lines of a tile, a block of each lane at a
//                 time. A lane's blocks come in order. The blocks of the
//                 warp's second half are `apart` blocks further.
// Lines has
//   any()                     whether Codes works for blocks that are not rare
//   fits()                    with kMayNotFit: whether to call Codes<true>
//   Codes<kFits>(x, block, scale, max)
//                             the codes of x, the lane's next block, which is
//                             at address `block` if not kFits; `max` is the
//                             largest magnitude under its scale, as fp32 bits
//   Rare(x, signs, amax, i)   the unit of the lane's i-th block, by the generic
//                             functions; all lanes of a square call it
// and, with kPicks, in place of the first two
//   Pick(x, max, &unit)       makes the unit of x, whose largest magnitude is
//                             `max`; returns false if Rare must make it
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_TILE_ENCODE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_TILE_ENCODE_CUH_

#include "kernels/cuda/encode/nvfp4/tile_units.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {

// How a copy is made, if at all.
enum class Copying { kNone, kPlain, kRotated };

// The maxima of a lane's blocks, for a test of all blocks at once.
class RareRange {
 public:
  __device__ __forceinline__ void Add(uint32_t max) {
    // (Zeros wrap around, so they do not count.)
    least_ = __viaddmin_u32(max, ~0u, least_);
    most_ = max > most_ ? max : most_;
  }
  // Whether any block IsRare.
  __device__ __forceinline__ bool HoldsRare(float s_inv6) const {
    const auto rare = [s_inv6](uint32_t max) {
      return IsRare(max, __uint_as_float(max) * s_inv6);
    };
    return rare(least_ + 1) | rare(most_);
  }

 private:
  uint32_t least_ = ~0u;  // the least but zeros, minus one
  uint32_t most_ = 0;
};

// The blocks that may be rare, given their four scales, the first in the low
// byte: those whose scale is no normal number, the smallest or the largest one.
// The first block is bit 3. The generic functions can encode all blocks.
__device__ __forceinline__ uint32_t MayBeRare(uint32_t scales) {
  uint32_t rare = 0;
  QUANTD_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t scale = scales >> (8 * i) & 0xFFu;
    rare = rare + rare + (scale - 9 >= 0x7E - 9 ? 1 : 0);
  }
  return rare;
}

template <typename Coding>
struct EncodeTeam {
  Exchange::Storage exchange[Team::kWarps];
  LineCodes::Storage codes[Team::kWarps];
  typename TeamGroup<typename Coding::Table>::Tables tables;
};
template <SharedMemory kSize, typename Coding>
using EncodeShared =
    TileShared<EncodeStream<kSize, Coding::kTeams>, EncodeTeam<Coding>>;

// Encodes one copy of this warp's lines. With kRht, the input and the rotated
// lines are bf16. kSmall: see EncodeNvfp4Tiles.
template <typename Coding, bool kColumns, bool kRht, bool kSmall>
__device__ __forceinline__ void EncodeWarpLines(
    const EncodeArgs& a, const typename Coding::Launched& launched,
    const StagedTile& tile, const Place& at, const Rotation& rotation,
    const TeamGroup<typename Coding::Table>& group, const Exchange& exchange,
    const LineCodes& all_codes, EncodeTeam<Coding>* s, HeldScales* held,
    uint32_t turn) {
  constexpr DType D = Coding::kType;
  static_assert(!kRht || (D == DType::kBF16 && !Coding::kSquare));
  const auto& table = kColumns ? s->tables.col : s->tables.row;
  const LineTask& copy = kColumns ? s->tables.columnwise : s->tables.rowwise;
  constexpr bool kFew = kSmall && kColumns;  // few blocks in a line
  uint32_t count = 4;                        // blocks of a lane
  uint32_t warp = Team::warp();
  if constexpr (kFew) {
    // A warp's halves take neighbouring blocks.
    const uint32_t blocks = copy.blocks() - at.row / kBlock;
    count = blocks > 4 ? 4 : blocks > 2 ? 2 : 1;
  } else if constexpr (kSmall) {
    // There are few rows, so other warps take them in the next tile.
    warp = (warp + 2 * turn) % Team::kWarps;
  }
  WarpLines<kColumns> lines(tile, warp, count);
  const uint32_t first_line = lines.first();
  if (first_line >= static_cast<uint32_t>(kColumns ? at.cols : at.rows)) return;
  typename Coding::template Lines<kColumns> coding(
      a, launched, table, group.task(), at, first_line, count);
  const LineCodes codes = kFew ? all_codes.Apart(count) : all_codes;
  float s_inv6 = 0.0f;
  if constexpr (!Coding::kPicks) s_inv6 = table.s_inv6;
  uint32_t scales = 0;
  uint32_t rare = 0;
  RareRange range;
  const auto scale_of = [s_inv6](uint32_t max) {
    return E4M3Of(__uint_as_float(max) * s_inv6);
  };
  // Encodes two rotated blocks at a time, so that instructions of one can be
  // between those of the other.
  const auto encode_pairs = [&]<bool kFits>() {
    if constexpr (kRht && Coding::kPairs) {
      uint32_t maxima[2];  // of two blocks each
      uint32_t inexact = 0;
#pragma unroll 1
      for (uint32_t i = 0; i < 4; i += 2) {
        Words x[2];
        uint32_t max[2];
        QUANTD_UNROLL
        for (uint32_t k = 0; k < 2; ++k) {
          lines.number = i + k;
          bool exact;
          x[k] = Rotate(lines, rotation, exchange, &max[k], &exact);
          inexact = inexact >> 1 | (__any_sync(0xFFFFFFFFu, !exact) ? 8 : 0);
        }
        maxima[0] = maxima[1];
        maxima[1] = __byte_perm(max[0], max[1], 0x7632);
        uint2 words[2];
        QUANTD_UNROLL
        for (uint32_t k = 0; k < 2; ++k) {
          const uint32_t scale = scale_of(max[k]);
          words[k] = coding.template Codes<kFits>(x[k], 0, scale, max[k]);
          scales = __funnelshift_r(scales, scale, 8);
          range.Add(max[k]);
        }
        codes.Set(i, words[0]);
        codes.Set(i + 1, words[1]);
      }
#pragma unroll 1
      for (; inexact != 0; inexact &= inexact - 1) {
        const auto i =
            static_cast<uint32_t>(__ffs(static_cast<int>(inexact)) - 1);
        const uint32_t two = i < 2 ? maxima[0] : maxima[1];
        lines.number = i;
        const uint32_t again =
            MakeExact(lines, a.signs, exchange,
                      i % 2 == 0 ? two << 16 : two & 0xFFFF0000u);
        if ((again >> threadIdx.x % kWarp & 1) == 0) continue;
        const Words x = BlockAt(exchange.own());
        const uint32_t max = LargestMagnitudeOf(x);
        const uint32_t scale = scale_of(max);
        codes.Set(i, coding.template Codes<kFits>(x, 0, scale, max));
        scales = (scales & ~(0xFFu << (8 * i))) | scale << (8 * i);
        range.Add(max);
      }
    }
  };
  const auto encode = [&]<bool kFits>() {
    if constexpr (kRht && Coding::kPairs && kFits && !kFew) {
      return encode_pairs.template operator()<kFits>();
    }
#pragma unroll(Coding::kTeams == 2 ? 2 : 1)
    for (uint32_t i = 0; i < 4; ++i) {
      if (kFew && i >= count) break;
      lines.number = i;
      Words x;
      uint32_t max;
      uint32_t block = exchange.own();
      if constexpr (kRht) {
        bool exact;
        x = Rotate(lines, rotation, exchange, &max, &exact);
        if (__any_sync(0xFFFFFFFFu, !exact) &&
            MakeExact(lines, a.signs, exchange, max) != 0) {
          x = BlockAt(block);
          max = LargestMagnitudeOf(x);
        }
      } else {
        if constexpr (kColumns) {
          Gather(lines, exchange);
        } else {
          block = lines.own_row();
        }
        x = BlockAt(block);
        max = Coding::kPairs ? LargestMagnitudeOf(x)
                             : LargerHalf<D>(LargestOfSigned<D>(x));
      }
      if constexpr (Coding::kSquare) max = LargestOfSixteen(max);
      if constexpr (Coding::kPicks) {
        Unit unit;
        rare = rare + rare + (coding.Pick(x, max, &unit) ? 0 : 1);
        codes.Set(i, unit.codes);
        scales = __funnelshift_r(scales, unit.scale, 8);
      } else {
        const uint32_t scale = scale_of(max);
        codes.Set(i, coding.template Codes<kFits>(x, block, scale, max));
        scales = __funnelshift_r(scales, scale, 8);
        range.Add(max);
      }
    }
  };
  if constexpr (!Coding::kMayNotFit) {
    encode.template operator()<true>();
  } else if (coding.fits()) {  // outside of the loop, where it takes no time
    encode.template operator()<true>();
  } else {
    encode.template operator()<false>();
  }
  if constexpr (!Coding::kPicks) {
    if (!coding.any()) {
      rare = 0xFu;
    } else if (range.HoldsRare(s_inv6)) {
      rare = MayBeRare(scales);
    }
  }
  if constexpr (kFew) {
    scales >>= 8 * (4 - count);
    rare = rare << (4 - count) & 0xFu;
  }
  for (; rare != 0; rare &= rare - 1) {
    const auto i = static_cast<uint32_t>(4 - __ffs(static_cast<int>(rare)));
    lines.number = i;
    const Unit unit = coding.Rare(
        lines.Block(), kRht ? a.signs : nullptr,
        *(kColumns ? group.task().columnwise : group.task().rowwise).amax, i);
    codes.Set(i, unit.codes);
    scales = (scales & ~(0xFFu << (8 * i))) | unit.scale << (8 * i);
  }
  if (kFew && count < 4) {
    const uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, scales, kBlock);
    const bool low = threadIdx.x % kWarp < kBlock;
    scales = low ? scales | other << (8 * count) : 0;
  }
  const LinePlace place = kColumns ? PlaceOfColumns(copy, at, first_line)
                                   : PlaceOfRows(at, first_line);
  StoreCodes(copy, place, codes);
  if constexpr (Coding::kSquare) {
    if constexpr (kColumns) {
      StoreOrHoldSquares(copy, place, at, scales, held);
    } else {
      StoreScalesOfSquares(copy, place, scales);
    }
  } else if constexpr (kColumns) {
    held->Add(scales);
    if (at.last != 0) held->Store(copy, place, at.number + 1);
  } else {
    StoreScales(copy, place, scales);
  }
}

// kSmall is for many groups with fewer rows than a tile, so that most rows of a
// tile do not exist.
template <SharedMemory kSize, typename Coding, Copying kRow, Copying kCol,
          bool kSmall>
__global__ void __launch_bounds__(
    EncodeStream<kSize, Coding::kTeams>::kCtaThreads, 1)
    EncodeNvfp4Tiles(
        const __grid_constant__ EncodeArgs a,
        const __grid_constant__
        typename EncodeStream<kSize, Coding::kTeams>::Source source,
        const __grid_constant__ typename Coding::Launched launched) {
  using All = EncodeShared<kSize, Coding>;
  RunTileStream<kSize, All>(a, source, [&](All& shared, auto& stream) {
    EncodeTeam<Coding>& team = shared.teams[Team::number()];
    const Rotation rotation(a.signs);
    const bool alone = a.list.count == 1;
    TeamGroup<typename Coding::Table> group(a, &team.tables);
    const Exchange exchange(&team.exchange[Team::warp()]);
    const LineCodes codes(&team.codes[Team::warp()]);
    HeldScales held;
    // With kSmall and 32 or 64 rows, all of a lane's blocks exist.
    const auto needs_zeros = [&](int rows) {
      return !alone && rows != kTileSide &&
             !(kSmall && (rows == 32 || rows == 64));
    };
    for (unsigned k = 0; stream.ReceiveWith(needs_zeros); ++k) {
      const Place& at = stream.place();
      group.Enter(at.group);
      if constexpr (kRow != Copying::kNone) {
        EncodeWarpLines<Coding, false, kRow == Copying::kRotated, kSmall>(
            a, launched, stream.tile(), at, rotation, group, exchange, codes,
            &team, &held, k);
      }
      if constexpr (kCol != Copying::kNone) {
        EncodeWarpLines<Coding, true, kCol == Copying::kRotated, kSmall>(
            a, launched, stream.tile(), at, rotation, group, exchange, codes,
            &team, &held, k);
      }
      if (a.dbias) {
        SumColumns<Coding::kType>(stream.tile(), at, a.list.cols,
                                  group.task().partial, k);
      }
      stream.Release();
    }
  });
}

// `Of<D>` is the Coding for elements of type D.
template <template <DType> typename Of, Copying kRow, Copying kCol>
cudaError_t LaunchTilesOf(const EncodeArgs& a, const Queue& queue) {
  return ForSharedMemory(queue, [&](auto size) {
    const auto launch = [&](auto type) {
      using Coding = Of<type()>;
      auto* kernel = &EncodeNvfp4Tiles<size(), Coding, kRow, kCol, false>;
      if constexpr (Coding::kSmallGroups) {
        if (HasSmallGroups(a.list)) {
          kernel = &EncodeNvfp4Tiles<size(), Coding, kRow, kCol, true>;
        }
      }
      return LaunchTileStream<size(), EncodeShared<size(), Coding>>(
          kernel, a, queue, typename Coding::Launched(a));
    };
    if constexpr (kRow == Copying::kRotated || kCol == Copying::kRotated) {
      return launch(std::integral_constant<DType, DType::kBF16>{});
    } else {
      return ForTwoByteType(a, launch);
    }
  });
}

// Calls `launch` with the Copying of a copy as a constant.
template <bool kMayRotate, typename F>
cudaError_t ForCopying(const CopyTask& copy, const F& launch) {
  if (copy.data == nullptr) {
    return launch(std::integral_constant<Copying, Copying::kNone>{});
  }
  if constexpr (kMayRotate) {
    if (copy.signs != nullptr) {
      return launch(std::integral_constant<Copying, Copying::kRotated>{});
    }
  }
  return launch(std::integral_constant<Copying, Copying::kPlain>{});
}
// Launches the kernel for the copies that are wanted.
template <template <DType> typename Of, bool kRotates, bool kRowsAlone>
cudaError_t LaunchTiles(const EncodeArgs& a, const Queue& queue) {
  return ForCopying<kRotates>(a.first.rowwise, [&](auto row) {
    return ForCopying<kRotates>(a.first.columnwise, [&](auto column) {
      if constexpr (column() != Copying::kNone ||
                    (kRowsAlone && row() != Copying::kNone)) {
        return LaunchTilesOf<Of, row(), column()>(a, queue);
      } else {
        return cudaErrorInvalidValue;
      }
    });
  });
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_TILE_ENCODE_CUH_
