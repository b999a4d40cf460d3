#include "kernels/cuda/encode/fp8/rows.cuh"

namespace quantd::cuda {

cudaError_t LaunchEncodeMxfp8Rows(const EncodeArgs& a, const Queue& queue) {
  return LaunchRows<Scaling::kMx>(a, queue);
}

cudaError_t LaunchEncodeMxfp8Tiles(const EncodeArgs& a, const Queue& queue) {
  return LaunchTiles<Scaling::kMx>(a, queue);
}

cudaError_t LaunchEncodeMxfp8Strips(const EncodeArgs& a, const Queue& queue) {
  constexpr Scaling S = Scaling::kMx;
  return ForElement(a, [&](auto element) {
    constexpr DType E = element();
    return a.first.rowwise.data == nullptr
               ? LaunchShape<S, E, false, true, false, Shape::kStrip>(a, queue)
               : LaunchShape<S, E, true, true, false, Shape::kStrip>(a, queue);
  });
}

}  // namespace quantd::cuda
