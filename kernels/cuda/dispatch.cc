#include "kernels/cuda/dispatch.h"

#include "kernels/cuda/encode/fp8/launch.h"
#include "kernels/cuda/encode/nvfp4/launch.h"

namespace quantd::cuda {

// The kernels are in encode/nvfp4/quantize_*.cu.
extern template cudaError_t LaunchQuantizeFrom<DType::kF32>(const QuantizeArgs&,
                                                            const Queue&);
extern template cudaError_t LaunchQuantizeFrom<DType::kF16>(const QuantizeArgs&,
                                                            const Queue&);

cudaError_t LaunchQuantize(const QuantizeArgs& args, const Queue& queue) {
  switch (args.x.dtype) {
    case DType::kF32:
      return LaunchQuantizeFrom<DType::kF32>(args, queue);
    case DType::kF16:
      return LaunchQuantizeFrom<DType::kF16>(args, queue);
    default:
      return cudaErrorInvalidValue;
  }
}

// The kernels are in encode/generic.
extern template cudaError_t LaunchEncodeFrom<DType::kF32>(const EncodeArgs&,
                                                          const Queue&);
extern template cudaError_t LaunchEncodeFrom<DType::kF16>(const EncodeArgs&,
                                                          const Queue&);
extern template cudaError_t LaunchEncodeFrom<DType::kBF16>(const EncodeArgs&,
                                                           const Queue&);

bool SumsChunks(const EncodeArgs& args) {
  return args.dbias && (SumsChunksNvfp4(args) || TakesFp8(args));
}

cudaError_t LaunchEncode(const EncodeArgs& args, const Queue& queue) {
  if (TakesNvfp4(args)) return LaunchEncodeNvfp4(args, queue);
  if (TakesFp8(args)) return LaunchEncodeFp8(args, queue);
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

cudaError_t LaunchDecode(const DecodeArgs& args, const Queue& queue) {
  const DequantizeParams& p = args.params;
  // Only MXFP8's columnwise copy is not the transpose.
  const bool in_place = !p.columnwise || (p.scaling == Scaling::kMx &&
                                          p.element != DType::kE2M1x2);
  if (args.rotation == 0) {
    return in_place ? LaunchDecodeRows(args, queue)
                    : LaunchDecodeColumns(args, queue);
  }
  if (p.scaling == Scaling::kNvfp4 && args.rotation == kRhtSize) {
    return in_place ? LaunchDecodeRotatedRows(args, queue)
                    : LaunchDecodeColumns(args, queue);
  }
  return LaunchDecodeSpans(args, queue);
}

}  // namespace quantd::cuda
