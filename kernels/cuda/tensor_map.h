// Descriptions of matrices for the tensor copy engine of sm_90 and later.
#ifndef QUANTD_KERNELS_CUDA_TENSOR_MAP_H_
#define QUANTD_KERNELS_CUDA_TENSOR_MAP_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace quantd::cuda {

using TensorMap = CUtensorMap;

// Of a row-major matrix of 16-bit elements, for boxes of 128 rows and 64
// columns, whose 16-byte pieces come exchanged within their 128 bytes of a row:
// piece p of row r is in place p ^ r % 8. `data` is device memory aligned to 16
// bytes and `cols` a multiple of 8. On a device or driver without such an
// engine the map is empty: kernels for it do not look.
cudaError_t MakeTensorMap(const std::byte* data, int64_t rows, int64_t cols,
                          TensorMap* map);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TENSOR_MAP_H_
