// NVFP4 quantization kernels, generic in the input type. Included by one
// translation unit for each type.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_QUANTIZE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_QUANTIZE_CUH_

#include "kernels/cuda/launch.h"
#include "kernels/cuda/tile/tile.cuh"

namespace quantd::cuda {

// --- kernels ----------------------------------------------------------------

// Rowwise alone: a thread is a block.
template <DType D, bool kRht>
__global__ void __launch_bounds__(kThreads)
    QuantizeRows(const __grid_constant__ EncodeArgs a) {
  const Nvfp4Encode global =
      MakeNvfp4Encode(*a.first.rowwise.amax, kNvfp4Range448);
  const int64_t per_row = a.list.cols / kBlock;
  const int64_t blocks = a.first.rows * per_row;
  // A 64-bit division costs more than the rest of the addressing together.
  const bool packed_scales = a.first.rowwise.scale_line == per_row;
  uint32_t seen = 0;
  for (int64_t b = FirstItem(); b < blocks; b += ItemStep()) {
    const std::byte* from = a.first.x + b * kBlock * kSizeOf<D>;
    float v[kBlock];
    Decode<D>(LoadBlock<D>(from), v);
    uint32_t max;
    if constexpr (kRht) {
      max = RotateToBf16<Scalar, kIsHalf<D>>(v, a.first.rowwise.signs);
    } else {
      max = MaxMagnitude<Scalar>(v);
    }
    // Rotated values are finite only if all that went in is.
    if (max >= kInfBits) {
      float raw[kBlock];
      Decode<D>(LoadBlock<D>(from), raw);
      seen |= SeenIn(raw, max);
    }
    const Nvfp4Block<Scalar> out =
        EncodeNvfp4<Scalar>(v, max, global, a.params.propagate);
    reinterpret_cast<uint2*>(a.first.rowwise.data)[b] =
        make_uint2(out.low, out.high);
    int64_t at = b;
    if (!packed_scales) {
      const int64_t row = b / per_row;
      at = row * a.first.rowwise.scale_line + (b - row * per_row);
    }
    a.first.rowwise.scale[at] = static_cast<std::byte>(out.scale);
  }
  Report(seen, a.seen);
}

// Encodes a block that may be rotated first.
template <DType D>
__device__ __forceinline__ Nvfp4Block<Scalar> RotateAndEncode(
    float (&v)[kBlock], const CopyTask& copy, const Nvfp4Encode& global,
    bool propagate) {
  const uint32_t max = copy.signs
                           ? RotateToBf16<Scalar, kIsHalf<D>>(v, copy.signs)
                           : MaxMagnitude<Scalar>(v);
  return EncodeNvfp4<Scalar>(v, max, global, propagate);
}

// Codes and scales of a tile's columns, on their way to whole lines. The odd
// pitch keeps neighbouring columns in other banks.
struct ColumnOutput {
  uint2 codes[kTileCols][kColBlocks + 1];
  alignas(4) uint8_t scales[kTileCols][kColBlocks];
};

// Writes what of `out` lies inside the copy, for the tile at (row, col).
__device__ __forceinline__ void StoreColumns(const ColumnOutput& out,
                                             const EncodeArgs& a, int64_t row,
                                             int64_t col) {
  const int64_t first = row / kBlock;
  const int64_t used = (a.first.rows + kBlock - 1) / kBlock;
  QUANTD_UNROLL
  for (int i = 0; i < kPerThread; ++i) {
    const int item = threadIdx.x + i * kThreads;
    const int line = item / kColBlocks;
    const int block = item % kColBlocks;
    if (col + line < a.list.cols && first + block < used) {
      std::byte* to =
          a.first.columnwise.data + (col + line) * a.first.columnwise.data_line;
      reinterpret_cast<uint2*>(to)[first + block] = out.codes[line][block];
    }
  }
  constexpr int kWords = kColBlocks / 4;
  const int line = threadIdx.x / kWords;
  const int word = threadIdx.x % kWords;
  if (line < kTileCols && col + line < a.list.cols &&
      first + 4 * word < a.first.columnwise.scale_line) {
    std::byte* to = a.first.columnwise.scale +
                    (col + line) * a.first.columnwise.scale_line + first;
    reinterpret_cast<uint32_t*>(to)[word] =
        reinterpret_cast<const uint32_t*>(out.scales[line])[word];
  }
}

// Columnwise, and rowwise too when wanted, from one read of each tile.
template <DType D>
__global__ void __launch_bounds__(kThreads)
    QuantizeTiles(const __grid_constant__ EncodeArgs a) {
  __shared__ SharedTile<D> tile;
  __shared__ ColumnOutput out;
  const bool rows_too = a.first.rowwise.data != nullptr;
  const Nvfp4Encode row_global =
      MakeNvfp4Encode(rows_too ? *a.first.rowwise.amax : 0.0f, kNvfp4Range448);
  const Nvfp4Encode col_global =
      MakeNvfp4Encode(*a.first.columnwise.amax, kNvfp4Range448);
  const Matrix x = {a.first.x, D, a.first.rows, a.list.cols};
  const TileGrid grid(x.rows, x.cols);
  uint32_t seen = 0;
  for (int64_t t = blockIdx.x; t < grid.count; t += gridDim.x) {
    const int64_t row = grid.row(t);
    const int64_t col = grid.col(t);
    RawBlock<D> raw[kPerThread];
    LoadTile<D>(x, row, col, raw);
    QUANTD_UNROLL
    for (int i = 0; i < kPerThread; ++i) {
      const int r = RowSlot::row(i);
      StoreBlock<D>(raw[i], tile.at(r, RowSlot::col()));
      float v[kBlock];
      Decode<D>(raw[i], v);
      seen |= SeenIn(v, MaxMagnitude<Scalar>(v));
      if (rows_too && row + r < a.first.rows &&
          col + RowSlot::col() < a.list.cols) {
        const Nvfp4Block<Scalar> block = RotateAndEncode<D>(
            v, a.first.rowwise, row_global, a.params.propagate);
        const int64_t b = (col + RowSlot::col()) / kBlock;
        std::byte* to =
            a.first.rowwise.data + (row + r) * a.first.rowwise.data_line;
        reinterpret_cast<uint2*>(to)[b] = make_uint2(block.low, block.high);
        a.first.rowwise.scale[(row + r) * a.first.rowwise.scale_line + b] =
            static_cast<std::byte>(block.scale);
      }
    }
    __syncthreads();
    QUANTD_UNROLL
    for (int i = 0; i < kPerThread; ++i) {
      float v[kBlock];
      LoadColumn<D>(tile, i, v);
      const Nvfp4Block<Scalar> block = RotateAndEncode<D>(
          v, a.first.columnwise, col_global, a.params.propagate);
      // Rows beyond the matrix are zeros, and so are their codes and scale.
      out.codes[ColSlot::col()][ColSlot::block(i)] =
          make_uint2(block.low, block.high);
      out.scales[ColSlot::col()][ColSlot::block(i)] =
          static_cast<uint8_t>(block.scale);
    }
    __syncthreads();
    // The next tile's first barrier keeps `out` until this is done.
    StoreColumns(out, a, row, col);
  }
  Report(seen, a.seen);
}

// --- launchers --------------------------------------------------------------

template <DType D>
cudaError_t LaunchQuantizeRows(const EncodeArgs& a, const Queue& queue) {
  const unsigned ctas =
      GridForBlocks(a.first.rows * (a.list.cols / kBlock), queue);
  if (a.first.rowwise.signs != nullptr) {
    QuantizeRows<D, true><<<ctas, kThreads, 0, queue.stream>>>(a);
  } else {
    QuantizeRows<D, false><<<ctas, kThreads, 0, queue.stream>>>(a);
  }
  return cudaGetLastError();
}

template <DType D>
cudaError_t LaunchQuantizeTiles(const EncodeArgs& a, const Queue& queue) {
  const TileGrid grid(a.first.rows, a.list.cols);
  QuantizeTiles<D>
      <<<GridFor(grid.count, 8, queue), kThreads, 0, queue.stream>>>(a);
  return cudaGetLastError();
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_QUANTIZE_CUH_
