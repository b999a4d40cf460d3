// Descriptions of matrices for the tensor copy engine of sm_90 and later.
#ifndef QUANTD_KERNELS_CUDA_TENSOR_MAP_H_
#define QUANTD_KERNELS_CUDA_TENSOR_MAP_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace quantd::cuda {

using TensorMap = CUtensorMap;

// How a tile's 16-byte pieces lie in shared memory: as in the matrix, or, in
// tiles of 64 columns, exchanged within 128 bytes so that pieces one below
// another are in other banks.
enum class TileLayout { kPlain, kSwizzled };

// Of a row-major matrix of 16-bit elements, for tiles of so many rows and
// columns (each at most 256; 64 columns where swizzled). `data` is device
// memory aligned to 16 bytes and `cols` a multiple of 8. On a device or driver
// without such an engine the map is empty: kernels for it do not look.
cudaError_t MakeTensorMap(const std::byte* data, int64_t rows, int64_t cols,
                          int tile_rows, int tile_cols, TileLayout layout,
                          TensorMap* map);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TENSOR_MAP_H_
