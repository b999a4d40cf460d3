#include "kernels/cuda/launch.h"

#include "kernels/cuda/spans.h"

namespace quantd::cuda {

// The kernels are in quantize_*.cu.
extern template cudaError_t LaunchQuantizeFrom<DType::kF32>(const QuantizeArgs&,
                                                            const Queue&);
extern template cudaError_t LaunchQuantizeFrom<DType::kF16>(const QuantizeArgs&,
                                                            const Queue&);
extern template cudaError_t LaunchQuantizeFrom<DType::kBF16>(
    const QuantizeArgs&, const Queue&);

cudaError_t LaunchQuantize(const QuantizeArgs& args, const Queue& queue) {
  switch (args.x.dtype) {
    case DType::kF32:
      return LaunchQuantizeFrom<DType::kF32>(args, queue);
    case DType::kF16:
      return LaunchQuantizeFrom<DType::kF16>(args, queue);
    case DType::kBF16:
      return LaunchQuantizeFrom<DType::kBF16>(args, queue);
    default:
      return cudaErrorInvalidValue;
  }
}

// The kernels are in encode_*.cu.
extern template cudaError_t LaunchEncodeFrom<DType::kF32>(const EncodeArgs&,
                                                          const Queue&);
extern template cudaError_t LaunchEncodeFrom<DType::kF16>(const EncodeArgs&,
                                                          const Queue&);
extern template cudaError_t LaunchEncodeFrom<DType::kBF16>(const EncodeArgs&,
                                                           const Queue&);

bool EncodeSumsChunks(const EncodeArgs& args) { return EncodesFp8(args); }

cudaError_t LaunchEncode(const EncodeArgs& args, const Queue& queue) {
  if (EncodesFp8(args)) return LaunchEncodeFp8(args, queue);
  switch (args.params.input) {
    case DType::kF32:
      return LaunchEncodeFrom<DType::kF32>(args, queue);
    case DType::kF16:
      return LaunchEncodeFrom<DType::kF16>(args, queue);
    case DType::kBF16:
      return LaunchEncodeFrom<DType::kBF16>(args, queue);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace quantd::cuda
