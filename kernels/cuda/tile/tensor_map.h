// Descriptions of matrices for the tensor copy engine of sm_90 and later.
#ifndef QUANTD_KERNELS_CUDA_TILE_TENSOR_MAP_H_
#define QUANTD_KERNELS_CUDA_TILE_TENSOR_MAP_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace quantd::cuda {

using TensorMap = CUtensorMap;

// Makes the map of a row-major matrix of elements of 2 or 4 bytes, for boxes of
// `box_rows` rows (at most 256) and 128 bytes of each. Pieces of 16 bytes are
// swizzled, so that a piece and the one below it are in different banks. `data`
// is device memory aligned to 16 bytes, and rows are a multiple of 16 bytes.
// The map is empty if the device or the driver has no such engine. Kernels for
// these devices do not use it.
cudaError_t MakeTensorMap(const std::byte* data, int element_bytes,
                          int64_t rows, int64_t cols, int box_rows,
                          TensorMap* map);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_TENSOR_MAP_H_
