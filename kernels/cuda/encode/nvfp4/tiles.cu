// NVFP4 by tiles of 128 x 128: the columnwise copy, both copies, and whatever
// goes with sums of columns. A tile is read once into shared memory; warps take
// sixteen lines of it each and need nobody else until it is done.
#include "kernels/cuda/encode/nvfp4/tile_units.cuh"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

enum class Copying { kNone, kPlain, kRotated };

template <DType D>
struct TeamState {
  Exchange::Storage exchange[Team::kWarps];
  LineCodes::Storage codes[Team::kWarps];
  typename TeamGroup<D>::Tables tables;
};
template <SharedMemory kSize, DType D, bool kRotated>
using Shared = TileShared<EncodeStream<kSize, kRotated>, TeamState<D>>;

// One copy of this warp's lines. Rotated ones are of bf16, and so is what they
// come from.
template <DType D, bool kColumns, bool kRht>
__device__ __forceinline__ void EncodeWarpLines(
    const EncodeArgs& a, const StagedTile& tile, const Place& at,
    const Rotation& rotation, const TeamGroup<D>& group,
    const Exchange& exchange, const LineCodes& codes, TeamState<D>* s,
    HeldScales* held) {
  static_assert(!kRht || D == DType::kBF16);
  const auto& table = kColumns ? s->tables.col : s->tables.row;
  WarpLines<kColumns> lines(tile);
  const uint32_t first_line = lines.first();
  if (first_line >= static_cast<uint32_t>(kColumns ? at.cols : at.rows)) return;
  const BlockCoding<D> coding(table);
  const float s_inv6 = table.s_inv6;
  uint32_t scales = 0;
  uint32_t rare = 0;
#pragma unroll(kRht ? 1 : 2)
  for (uint32_t i = 0; i < 4; ++i) {
    lines.number = i;
    Words x;
    uint32_t max;
    uint32_t block = exchange.own();
    if constexpr (kRht) {
      x = Rotate(lines, rotation, a.signs, exchange, &max);
    } else {
      if constexpr (kColumns) {
        Gather(lines, exchange);
      } else {
        block = lines.own_row();
      }
      x = BlockAt(block);
      max = LargerHalf<D>(LargestOfSigned<D>(x));
    }
    const float wanted = __uint_as_float(max) * s_inv6;
    const uint32_t scale = E4M3Of(wanted);
    codes.Set(i, coding.Codes(x, block, scale));
    scales = __funnelshift_r(scales, scale, 8);
    rare = rare + rare + (IsRare(max, wanted) || !coding.any() ? 1 : 0);
  }
  for (; rare != 0; rare &= rare - 1) {
    const auto i = static_cast<uint32_t>(4 - __ffs(static_cast<int>(rare)));
    lines.number = i;
    const Unit unit = EncodeRare<D>(
        a.params, lines.Block(), kRht ? a.signs : nullptr,
        *(kColumns ? group.task().columnwise : group.task().rowwise).amax,
        nullptr, a.seen);
    codes.Set(i, unit.codes);
    scales = (scales & ~(0xFFu << (8 * i))) | unit.scale << (8 * i);
  }
  const LineTask& copy = kColumns ? s->tables.columnwise : s->tables.rowwise;
  const LinePlace place = kColumns ? PlaceOfColumns(copy, at, first_line)
                                   : PlaceOfRows(at, first_line);
  StoreCodes(copy, place, codes);
  if constexpr (kColumns) {
    held->Add(scales);
    if (at.last != 0) held->Store(copy, place, at.number + 1);
  } else {
    StoreScales(copy, place, scales);
  }
}

template <Copying kRow, Copying kCol>
constexpr bool kAnyRotated =
    kRow == Copying::kRotated || kCol == Copying::kRotated;

template <SharedMemory kSize, DType D, Copying kRow, Copying kCol>
__global__ void __launch_bounds__(
    EncodeStream<kSize, kAnyRotated<kRow, kCol>>::kCtaThreads, 1)
    EncodeNvfp4Tiles(const __grid_constant__ EncodeArgs a,
                     const __grid_constant__ TensorMap map) {
  using All = Shared<kSize, D, kAnyRotated<kRow, kCol>>;
  RunTileStream<kSize, All>(a, map, [&](All& shared, auto& stream) {
    TeamState<D>& team = shared.teams[Team::number()];
    const Rotation rotation(a.signs);
    const bool alone = a.list.count == 1;
    TeamGroup<D> group(a, &team.tables);
    const Exchange exchange(&team.exchange[Team::warp()]);
    const LineCodes codes(&team.codes[Team::warp()]);
    HeldScales held;
    for (unsigned k = 0; stream.Receive(alone); ++k) {
      const Place& at = stream.place();
      group.Enter(at.group);
      if constexpr (kRow != Copying::kNone) {
        EncodeWarpLines<D, false, kRow == Copying::kRotated>(
            a, stream.tile(), at, rotation, group, exchange, codes, &team,
            &held);
      }
      if constexpr (kCol != Copying::kNone) {
        EncodeWarpLines<D, true, kCol == Copying::kRotated>(
            a, stream.tile(), at, rotation, group, exchange, codes, &team,
            &held);
      }
      // Two warps' work, others at each tile.
      if (a.dbias) {
        SumColumns<D>(stream.tile(), at, a.list.cols, group.task(),
                      (Team::thread() + k * (kTileSide / 2)) % kThreads);
      }
      stream.Release();
    }
  });
}

template <Copying kRow, Copying kCol>
cudaError_t Launch(const EncodeArgs& a, const Queue& queue) {
  return ForSharedMemory([&](auto size) {
    constexpr bool kRotated = kAnyRotated<kRow, kCol>;
    const auto launch = [&](auto type) {
      return LaunchTileStream<size(), Shared<size(), type(), kRotated>>(
          &EncodeNvfp4Tiles<size(), type(), kRow, kCol>, a, queue);
    };
    if constexpr (kRotated) {
      return launch(std::integral_constant<DType, DType::kBF16>{});
    } else {
      return ForTwoByteType(a, launch);
    }
  });
}

template <Copying kRow>
cudaError_t LaunchFor(const EncodeArgs& a, const Queue& queue) {
  if constexpr (kRow != Copying::kNone) {
    if (a.first.columnwise.data == nullptr) {
      return Launch<kRow, Copying::kNone>(a, queue);
    }
  }
  return a.first.columnwise.signs != nullptr
             ? Launch<kRow, Copying::kRotated>(a, queue)
             : Launch<kRow, Copying::kPlain>(a, queue);
}

}  // namespace

cudaError_t LaunchEncodeNvfp4Tiles(const EncodeArgs& a, const Queue& queue) {
  if (a.first.rowwise.data == nullptr) {
    return LaunchFor<Copying::kNone>(a, queue);
  }
  return a.first.rowwise.signs != nullptr
             ? LaunchFor<Copying::kRotated>(a, queue)
             : LaunchFor<Copying::kPlain>(a, queue);
}

}  // namespace quantd::cuda
