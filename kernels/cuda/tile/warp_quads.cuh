// Blocks of 16 elements, one a lane, that a warp passes through shared memory
// to take them up in other pieces.
#ifndef QUANTD_KERNELS_CUDA_TILE_WARP_QUADS_CUH_
#define QUANTD_KERNELS_CUDA_TILE_WARP_QUADS_CUH_

#include <cstdint>

#include "kernels/cuda/tile/element.cuh"

namespace quantd::cuda {

// Shared memory of a warp: twice, so that one barrier between writing and
// reading is enough. A block is two or four quads of 16 bytes; where they
// change places, neither the lanes that write a quad nor those that read a row,
// nor the eight rows of a fragment meet in a bank.
template <DType D>
struct WarpBlocks {
  uint4 quads[2][kSizeOf<D> * kWarp];
};
template <DType D>
__device__ __forceinline__ int QuadIndex(int slot, int quad) {
  constexpr int kQuads = kSizeOf<D>;
  return kQuads * slot + (quad ^ (slot / (8 / kQuads) & (kQuads - 1)));
}
// Puts a lane's block there.
template <DType D>
__device__ __forceinline__ void PutBlock(uint4* quads, int slot,
                                         const uint32_t* words) {
  QUANTD_UNROLL
  for (int i = 0; i < kSizeOf<D>; ++i) {
    quads[QuadIndex<D>(slot, i)] = make_uint4(
        words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_WARP_QUADS_CUH_
