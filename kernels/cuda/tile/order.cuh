// The order in which teams of warps take tiles of 128 x 128.
#ifndef QUANTD_KERNELS_CUDA_TILE_ORDER_CUH_
#define QUANTD_KERNELS_CUDA_TILE_ORDER_CUH_

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/args.h"
#include "kernels/cuda/tile/span.cuh"

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

// The order of tiles, computed by the host. A team takes units of kUnit tiles,
// one tile below the other. Neighbouring teams take neighbouring units, to the
// right or, with `down`, below. So the output of a line is written by one team,
// or by several at about the same time. If groups are small, a unit is tiles
// side by side, so that a team stays within a group. All teams take the same
// number of whole units; then they take the remaining tiles one by one.
template <uint32_t kUnit>
class TileOrder {
 public:
  // At most the first `teams` of each CTA take tiles. Fewer do if that takes no
  // longer: two teams need two rounds for four tiles, as three teams do.
  TileOrder(const GroupList& list, uint32_t ctas, uint32_t teams, bool down)
      : ctas_(ctas),
        chunks_(static_cast<uint32_t>(list.chunk_count)),
        columns_(static_cast<uint32_t>(TilesAcross(list))),
        down_(down && !HasSmallGroups(list)),
        beside_(HasSmallGroups(list)) {
    const uint32_t most = CeilOf(chunks_ * columns_, ctas);  // tiles of a CTA
    active_ = CeilOf(most, CeilOf(most, teams));
    const uint32_t deep = CeilOf(chunks_, beside_ ? 1 : kUnit);
    const uint32_t across = CeilOf(columns_, beside_ ? kUnit : 1);
    const uint32_t units = deep * across;
    const uint32_t all = ctas * active_;
    rounds_ = units / all;
    const uint32_t left = units - rounds_ * all;
    left_ = Divisor(std::max(left, 1u));
    singles_ = left * kUnit;
    count_ = rounds_ * kUnit + CeilOf(singles_, all);
    width_ = Divisor(down_ ? deep : across);
  }

  // The number of tiles to look for with Find. Some may not exist.
  __device__ __forceinline__ uint32_t count() const { return count_; }

  struct Tile {
    uint32_t chunk;
    uint32_t column;
    uint32_t top;     // first chunk of this run of tiles, one below the other;
                      // a group's edge may shorten the run
    uint32_t bottom;  // the chunk after the last one of the run
  };
  // Finds tile i of a team of this CTA. Returns false if it does not exist.
  __device__ __forceinline__ bool Find(uint32_t team, uint32_t i,
                                       Tile* tile) const {
    if (team >= active_) return false;
    const uint32_t number = blockIdx.x + team * ctas_;
    const uint32_t all = ctas_ * active_;
    const bool whole = i < rounds_ * kUnit;
    uint32_t unit = i / kUnit * all + number;
    uint32_t part = i % kUnit;
    if (!whole) {
      const uint32_t single = (i - rounds_ * kUnit) * all + number;
      if (single >= singles_) return false;
      part = left_.Into(single);
      unit = rounds_ * all + (single - part * left_.number());
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
  uint32_t rounds_;  // rounds of whole units
  uint32_t singles_;
  uint32_t count_;
  Divisor left_;   // units after the rounds
  Divisor width_;  // units in a row, or in a column
  bool down_;
  bool beside_;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_ORDER_CUH_
