#include "kernels/cuda/encode/fp8/rows.cuh"

namespace quantd::cuda {
namespace {

template <DType E>
cudaError_t LaunchStrips(const EncodeArgs& a, const Queue& queue) {
  constexpr Scaling S = Scaling::kMx;
  return a.first.rowwise.data == nullptr
             ? LaunchShape<S, E, false, true, false, Shape::kStrip>(a, queue)
             : LaunchShape<S, E, true, true, false, Shape::kStrip>(a, queue);
}

}  // namespace

template cudaError_t LaunchFp8Rows<Scaling::kMx>(const EncodeArgs&,
                                                 const Queue&);
template cudaError_t LaunchFp8Tiles<Scaling::kMx>(const EncodeArgs&,
                                                  const Queue&);

cudaError_t LaunchFp8Strips(const EncodeArgs& a, const Queue& queue) {
  return a.params.element == DType::kE4M3
             ? LaunchStrips<DType::kE4M3>(a, queue)
             : LaunchStrips<DType::kE5M2>(a, queue);
}

}  // namespace quantd::cuda
