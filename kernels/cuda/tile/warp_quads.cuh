// Blocks of 16 elements, one in each lane, that a warp redistributes through
// shared memory.
#ifndef QUANTD_KERNELS_CUDA_TILE_WARP_QUADS_CUH_
#define QUANTD_KERNELS_CUDA_TILE_WARP_QUADS_CUH_

#include <cstdint>

#include "kernels/cuda/tile/element.cuh"

namespace quantd::cuda {

// Shared memory of a warp. It has two buffers, so that one barrier between
// writing and reading is enough. A block is two or four quads of 16 bytes. The
// quads are swizzled: there are no bank conflicts when lanes write their
// blocks, read a row, or load the eight rows of a fragment.
template <DType D>
struct WarpBlocks {
  uint4 quads[2][kSizeOf<D> * kWarp];
};
template <DType D>
__device__ __forceinline__ int QuadIndex(int slot, int quad) {
  constexpr int kQuads = kSizeOf<D>;
  return kQuads * slot + (quad ^ (slot / (8 / kQuads) & (kQuads - 1)));
}
// Stores a lane's block in a slot.
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
