// NVFP4 by tiles of 128 x 128: the columnwise copy, both copies, and whatever
// goes with sums of columns. A tile is read once into shared memory; warps take
// sixteen lines of it each and need nobody else until it is done.
#include "kernels/cuda/nvfp4.h"
#include "kernels/cuda/tile_units.cuh"

namespace quantd::cuda {
namespace {

enum class Copying { kNone, kPlain, kRotated };

struct Shared {
  OneTile::Storage ring;
  GroupStateWith<Lines> group;
  Exchange::Storage exchange[kTileWarps];
  LineCodes::Storage codes[kTileWarps];
};

// One copy of this warp's lines.
template <bool kColumns, bool kRht>
__device__ __forceinline__ void EncodeStrip(const EncodeArgs& a,
                                            const StagedTile& tile,
                                            const Place& at,
                                            const Rotation& rotation,
                                            Shared* s) {
  const CopyTask& copy =
      kColumns ? s->group.task.columnwise : s->group.task.rowwise;
  const Lines& lines = kColumns ? s->group.col : s->group.row;
  Strip<kColumns> strip(tile);
  const uint32_t first_line = strip.first();
  const LinePlace place = kColumns ? PlaceOfColumns(copy, at, first_line)
                                   : PlaceOfRows(at, first_line);
  if (place.lines <= 0) return;
  const Exchange exchange(&s->exchange[threadIdx.x / kWarp]);
  const LineCodes codes(&s->codes[threadIdx.x / kWarp]);
  const uint32_t table = Kept(SharedAddress(lines.of));
  const float s_inv6 = lines.s_inv6;
  uint32_t scales = 0;
  uint32_t rare = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < 4; ++i) {
    strip.number = i;
    Words x;
    uint32_t max;
    uint32_t block = exchange.own();
    if constexpr (kRht) {
      x = Rotate(strip, rotation, a.signs, exchange, &max);
    } else {
      if constexpr (kColumns) {
        Gather(strip, exchange);
      } else {
        block = strip.own_row();
      }
      x = BlockAt(block);
      max = LargerHalf(LargestOf(x.w));
    }
    const float wanted = __uint_as_float(max) * s_inv6;
    const uint32_t scale = E4M3Of(wanted);
    const LineWords line(LoadShared2(table + scale * sizeof(Line)));
    uint2 coded = CodesUnder(x, line);
    if (line.none()) coded = CodesWithoutLine(block, lines.s_dec, scale);
    codes.Set(i, coded);
    scales = __funnelshift_r(scales, scale, 8);
    rare |= IsRare(max, wanted) ? 1u << i : 0u;
  }
  for (; rare != 0; rare &= rare - 1) {
    const auto i = static_cast<uint32_t>(__ffs(static_cast<int>(rare)) - 1);
    strip.number = i;
    const Unit unit =
        EncodeRare(a.params, strip.Block(), kRht ? a.signs : nullptr,
                   *copy.amax, nullptr, a.seen);
    codes.Set(i, unit.codes);
    scales = (scales & ~(0xFFu << (8 * i))) | unit.scale << (8 * i);
  }
  StoreLines(copy, place, first_line, codes, scales);
}

template <Copying kRow, Copying kCol>
__global__ void __launch_bounds__(kThreads, kTileCtas)
    EncodeNvfp4Tiles(const __grid_constant__ EncodeArgs a,
                     const __grid_constant__ TensorMap map) {
  extern __shared__ __align__(1024) std::byte shared[];
  Shared& s = *reinterpret_cast<Shared*>(shared);
  OneTile ring(&s.ring);
  TileWalk walk(a.list);
  const bool alone = a.list.count == 1;
  ring.Start(0, a.list, a.first, map, walk.tile);
  const Rotation rotation(a.signs);
  int64_t current = -1;
  // While the first tile is on its way.
  if (alone && s.group.Enter(a, 0, &current)) s.group.Settle(a);
  bool more = walk.tile < walk.end;
  for (uint32_t k = 0; more; ++k) {
    const StagedTile& tile = ring.Wait(k, alone);
    const Place& at = ring.place(k);
    walk.tile = walk.next();
    more = walk.tile < walk.end;
    if (more) ring.Find(k + 1, a.list, a.first, walk.tile);
    if (s.group.Enter(a, at.group, &current)) s.group.Settle(a);
    if constexpr (kRow != Copying::kNone) {
      EncodeStrip<false, kRow == Copying::kRotated>(a, tile, at, rotation, &s);
    }
    if constexpr (kCol != Copying::kNone) {
      EncodeStrip<true, kCol == Copying::kRotated>(a, tile, at, rotation, &s);
    }
    // Two warps' work, others at each tile.
    if (a.dbias) {
      SumColumns(tile, at, a.list.cols, s.group.task,
                 (threadIdx.x + k * (kTileSide / 2)) % kThreads);
    }
    __syncthreads();  // the tile has been used
    if (more) ring.Copy(k + 1, a.list, a.first, map);
  }
}

template <Copying kRow, Copying kCol>
cudaError_t Launch(const EncodeArgs& a, const Queue& queue) {
  return LaunchTiles(&EncodeNvfp4Tiles<kRow, kCol>, sizeof(Shared), a, queue);
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
