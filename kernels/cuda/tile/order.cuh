// Which tiles of 128 x 128 a team of warps takes, and when.
#ifndef QUANTD_KERNELS_CUDA_TILE_ORDER_CUH_
#define QUANTD_KERNELS_CUDA_TILE_ORDER_CUH_

#include <cstdint>

#include "kernels/cuda/args.h"

namespace quantd::cuda {

// The order of tiles. Teams of all CTAs take units of kUnit tiles one below the
// other, neighbouring teams neighbouring units (to the right, or `down`), so
// that what is written of lines is written by one team or at about the same
// time. What is left after as many units for everyone is taken by single tiles.
template <uint32_t kUnit>
class TileOrder {
 public:
  __device__ __forceinline__ TileOrder(const GroupList& list, uint32_t teams,
                                       bool down)
      : list_(list), teams_(teams), down_(down) {
    const uint32_t units = deep() * across();
    rounds_ = units / teams;
    left_ = units - rounds_ * teams;
  }

  // The number of tiles for each team, with those that are not there.
  __device__ __forceinline__ uint32_t count() const {
    return rounds_ * kUnit + (left_ * kUnit + teams_ - 1) / teams_;
  }

  struct Tile {
    uint32_t chunk;
    uint32_t column;
    uint32_t top;     // the first chunk of its run, if groups do not end it
    uint32_t bottom;  // and the one after the last
  };
  // Finds tile i of a team. Returns whether it is there.
  __device__ __forceinline__ bool Find(uint32_t team, uint32_t i,
                                       Tile* tile) const {
    const bool whole = i < rounds_ * kUnit;
    uint32_t unit = i / kUnit * teams_ + team;
    uint32_t part = i % kUnit;
    if (!whole) {
      const uint32_t single = (i - rounds_ * kUnit) * teams_ + team;
      if (single >= left_ * kUnit) return false;
      part = single / left_;
      unit = rounds_ * teams_ + (single - part * left_);
    }
    const uint32_t width = down_ ? deep() : across();
    const uint32_t high = unit / width;
    const uint32_t low = unit - high * width;
    tile->column = down_ ? high : low;
    tile->top = (down_ ? low : high) * kUnit;
    tile->bottom = tile->top + kUnit;
    tile->chunk = tile->top + part;
    if (!whole) {
      tile->top = tile->chunk;
      tile->bottom = tile->chunk + 1;
    }
    return tile->chunk < chunks();
  }

 private:
  __device__ __forceinline__ uint32_t across() const {
    return (static_cast<uint32_t>(list_.cols) + kTileSide - 1) / kTileSide;
  }
  __device__ __forceinline__ uint32_t chunks() const {
    return static_cast<uint32_t>(list_.chunk_count);
  }
  __device__ __forceinline__ uint32_t deep() const {
    return (chunks() + kUnit - 1) / kUnit;
  }

  const GroupList& list_;
  uint32_t teams_;
  bool down_;
  uint32_t rounds_;  // of whole units
  uint32_t left_;    // units after those
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_ORDER_CUH_
