#include "kernels/cuda/encode/fp8/rows.cuh"

namespace quantd::cuda {

cudaError_t LaunchEncodeFp8BlockRows(const EncodeArgs& a, const Queue& queue) {
  return LaunchRows<Scaling::kBlock>(a, queue);
}

cudaError_t LaunchEncodeFp8BlockTiles(const EncodeArgs& a, const Queue& queue) {
  return LaunchTiles<Scaling::kBlock>(a, queue);
}

}  // namespace quantd::cuda
