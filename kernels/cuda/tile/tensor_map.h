// Descriptions of matrices for the tensor copy engine of sm_90 and later.
#ifndef QUANTD_KERNELS_CUDA_TILE_TENSOR_MAP_H_
#define QUANTD_KERNELS_CUDA_TILE_TENSOR_MAP_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace quantd::cuda {

using TensorMap = CUtensorMap;

// Makes the map of a row-major matrix of 16-bit elements for boxes of so many
// rows (at most 256) and columns (at most 64), whose pieces of 16 bytes are
// exchanged within 128 bytes so that pieces one below another are in other
// banks. `data` is device memory aligned to 16 bytes and `cols` a multiple
// of 8. On a device or driver without such an engine the map is empty: kernels
// for it do not look.
cudaError_t MakeTensorMap(const std::byte* data, int64_t rows, int64_t cols,
                          int box_rows, int box_cols, TensorMap* map);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_TENSOR_MAP_H_
