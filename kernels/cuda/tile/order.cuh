// The tiles of 128 x 128 that teams of warps take, and their order.
#ifndef QUANTD_KERNELS_CUDA_TILE_ORDER_CUH_
#define QUANTD_KERNELS_CUDA_TILE_ORDER_CUH_

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/args.h"
#include "kernels/cuda/tile/span.cuh"
#include "kernels/cuda/tile/tensor_map.h"

namespace quantd::cuda {

// Divides numbers below 2^31 by a divisor that the host prepares. Real
// divisions would delay the sending warp, and all others wait for its first
// tile.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(uint32_t by) : by_(by) {
    // by <= 2^bits, and factor_ is 2^(31 + bits) / by, rounded up.
    uint32_t bits = 0;
    while ((uint64_t{1} << bits) < by) ++bits;
    shift_ = 31 + bits;
    factor_ = static_cast<uint32_t>(((uint64_t{1} << shift_) + by - 1) / by);
  }
  __device__ __forceinline__ uint32_t number() const { return by_; }
  __device__ __forceinline__ uint32_t Into(uint32_t n) const {
    return static_cast<uint32_t>(uint64_t{n} * factor_ >> shift_);
  }

 private:
  uint32_t by_;
  uint32_t factor_;
  uint32_t shift_;
};

// Whether there are several groups and tiles are at most half full on average.
inline bool HasSmallGroups(const GroupList& list) {
  return list.count > 1 && list.rows <= list.chunk_count * (kTileSide / 2);
}

// The order of tiles, computed by the host. Teams take units of kUnit tiles,
// one tile below the other. Consecutive units are neighbours, to the right or,
// with `down`, below. So the output of a line is written by one team, or by
// several at about the same time. If most groups are lower than a unit, it is
// tiles side by side, so that a team stays within a group. The last units are
// split into tiles, so that all teams end at about the same time. Units and
// these tiles are called items, and are taken in the order of their numbers.
template <uint32_t kUnit>
class TileOrder {
 public:
  // At most the first `teams` of each CTA take tiles. Fewer do if that takes no
  // longer: two teams need two rounds for four tiles, as three teams do.
  TileOrder(const GroupList& list, uint32_t ctas, uint32_t teams, bool down)
      : ctas_(ctas),
        chunks_(static_cast<uint32_t>(list.chunk_count)),
        columns_(static_cast<uint32_t>(TilesAcross(list))),
        beside_(list.count > 1 &&
                list.chunk_count < int64_t{kUnit} * list.count),
        down_(down && !beside_) {
    const uint32_t most = CeilOf(chunks_ * columns_, ctas);  // tiles of a CTA
    active_ = CeilOf(most, CeilOf(most, teams));
    const uint32_t deep = CeilOf(chunks_, beside_ ? 1 : kUnit);
    const uint32_t across = CeilOf(columns_, beside_ ? kUnit : 1);
    const uint32_t left = deep * across % this->teams();
    units_ = deep * across - left;
    left_ = Divisor(std::max(left, 1u));
    items_ = units_ + left * kUnit;
    width_ = Divisor(down_ ? deep : across);
  }

  // The teams of all CTAs that take tiles.
  __host__ __device__ __forceinline__ uint32_t teams() const {
    return ctas_ * active_;
  }
  // The number of items. The first units() are whole units. Some of their tiles
  // may not exist.
  __device__ __forceinline__ uint32_t items() const { return items_; }
  __device__ __forceinline__ uint32_t units() const { return units_; }
  // The first item of a team of this CTA, or a number that no item has.
  __device__ __forceinline__ uint32_t First(uint32_t team) const {
    return team < active_ ? blockIdx.x + team * ctas_ : ~0u;
  }

  struct Tile {
    uint32_t chunk;
    uint32_t column;
    uint32_t top;     // first chunk of this run of tiles, one below the other;
                      // a group's edge may shorten the run
    uint32_t bottom;  // the chunk after the last one of the run
  };
  // Finds tile `part` of an item. Returns false if it does not exist.
  __device__ __forceinline__ bool Find(uint32_t item, uint32_t part,
                                       Tile* tile) const {
    if (item >= items_) return false;
    const bool whole = item < units_;
    uint32_t unit = item;
    if (!whole) {
      if (part != 0) return false;
      part = left_.Into(item - units_);
      unit = item - part * left_.number();
    }
    const uint32_t high = width_.Into(unit);
    const uint32_t low = unit - high * width_.number();
    if (beside_) {
      tile->column = low * kUnit + part;
      tile->chunk = tile->top = high;
      tile->bottom = high + 1;
      return tile->column < columns_;
    }
    tile->column = down_ ? high : low;
    tile->top = (down_ ? low : high) * kUnit;
    tile->bottom = tile->top + kUnit;
    tile->chunk = tile->top + part;
    if (!whole) {
      tile->top = tile->chunk;
      tile->bottom = tile->chunk + 1;
    }
    return tile->chunk < chunks_;
  }

 private:
  static uint32_t CeilOf(uint32_t n, uint32_t by) { return (n + by - 1) / by; }

  uint32_t ctas_;
  uint32_t active_;  // teams of a CTA
  uint32_t chunks_;
  uint32_t columns_;
  uint32_t units_;
  uint32_t items_;
  Divisor left_;   // units that are split
  Divisor width_;  // units in a row, or in a column
  bool beside_;
  bool down_;
};

// The source of a stream of tiles, set up by the host.
template <uint32_t kUnit>
struct TileSource {
  // The map of the whole payload, whose rows are a multiple of 16 bytes.
  TensorMap map;
  TileOrder<kUnit> order;
  // The number of items that teams have taken besides their first ones. 0
  // before and after a kernel. Teams that are faster take more items.
  uint32_t* tickets;
  // The copy engine copies 2^log_rows rows at a time. Several groups need small
  // boxes: the rows after a group belong to the next one.
  uint32_t log_rows;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_ORDER_CUH_
