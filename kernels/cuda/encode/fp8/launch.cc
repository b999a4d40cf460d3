#include "kernels/cuda/encode/fp8/launch.h"

#include <limits>

namespace quantd::cuda {

// The kernels are in block.cu, mx.cu and tensor.cu.
extern template cudaError_t LaunchEncodeFp8Of<Scaling::kTensor>(
    const EncodeArgs&, const Queue&);
extern template cudaError_t LaunchEncodeFp8Of<Scaling::kBlock>(
    const EncodeArgs&, const Queue&);
extern template cudaError_t LaunchEncodeFp8Of<Scaling::kMx>(const EncodeArgs&,
                                                            const Queue&);

bool TakesFp8(const EncodeArgs& a) {
  const EncodeParams& p = a.params;
  const bool copies =
      a.first.rowwise.data != nullptr || a.first.columnwise.data != nullptr;
  // Kernels count CTAs, and the columns of a chunk's, in 32 bits.
  return copies && (p.element == DType::kE4M3 || p.element == DType::kE5M2) &&
         p.input == DType::kBF16 && !p.square && a.rotation == 0 &&
         a.sums == nullptr && p.cols % 8 == 0 &&
         a.list.chunk_count * p.cols < std::numeric_limits<int32_t>::max();
}

cudaError_t LaunchEncodeFp8(const EncodeArgs& a, const Queue& queue) {
  switch (a.params.scaling) {
    case Scaling::kTensor:
      return LaunchEncodeFp8Of<Scaling::kTensor>(a, queue);
    case Scaling::kBlock:
      return LaunchEncodeFp8Of<Scaling::kBlock>(a, queue);
    case Scaling::kMx:
      return LaunchEncodeFp8Of<Scaling::kMx>(a, queue);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace quantd::cuda
