#include "kernels/cuda/tile/tensor_map.h"

namespace quantd::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// Looks up the driver's function. The runtime has no equivalent, and a program
// that links with the driver does not start on machines without one.
Encode FindEncode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(
      "cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  cudaGetLastError();  // clears the error: nullptr reports it
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess
             ? reinterpret_cast<Encode>(function)
             : nullptr;
}

}  // namespace

cudaError_t MakeTensorMap(const std::byte* data, int element_bytes,
                          int64_t rows, int64_t cols, int box_rows,
                          TensorMap* map) {
  static const Encode encode = FindEncode();
  *map = {};
  if (encode == nullptr) return cudaSuccess;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(cols),
                              static_cast<cuuint64_t>(rows)};
  const cuuint64_t pitch[] = {static_cast<cuuint64_t>(cols) *
                              static_cast<cuuint64_t>(element_bytes)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(128 / element_bytes),
                            static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[] = {1, 1};
  const CUresult result = encode(
      map,
      element_bytes == 4 ? CU_TENSOR_MAP_DATA_TYPE_UINT32
                         : CU_TENSOR_MAP_DATA_TYPE_UINT16,
      2, const_cast<std::byte*>(data), sizes, pitch, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace quantd::cuda
