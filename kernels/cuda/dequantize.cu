#include "kernels/cuda/tile.cuh"

namespace quantd::cuda {
namespace {

// --- kernels ----------------------------------------------------------------

// Decodes a block to values of type D. The inverse rotation sees them as they
// would be stored without it.
template <DType D>
__device__ __forceinline__ void DecodeBlock(const Nvfp4Block<Scalar>& block,
                                            const Nvfp4Decode& global,
                                            const float* signs,
                                            float (&v)[kBlock]) {
  DecodeNvfp4<Scalar>(block, global, v);
  if (signs == nullptr) return;
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    v[i] = DecodeElement<D>(EncodeElement<D>(v[i]));
  }
  RotateInverse<Scalar>(v, signs);
}

template <DType D>
__global__ void __launch_bounds__(kThreads) DequantizeRows(DequantizeArgs a) {
  const Nvfp4Decode global = MakeNvfp4Decode(*a.amax);
  const int64_t per_row = a.cols / kBlock;
  const int64_t blocks = a.rows * per_row;
  const bool packed_scales = a.scale_stride == per_row;
  for (int64_t b = FirstItem(); b < blocks; b += ItemStep()) {
    int64_t at = b;
    if (!packed_scales) {
      const int64_t row = b / per_row;
      at = row * a.scale_stride + (b - row * per_row);
    }
    const uint2 codes = reinterpret_cast<const uint2*>(a.data)[b];
    float v[kBlock];
    DecodeBlock<D>({codes.x, codes.y, static_cast<uint32_t>(a.scale[at])},
                   global, a.signs, v);
    StoreBlock<D>(Encode<D>(v), a.out + b * kBlock * kSizeOf<D>);
  }
}

template <DType D>
__global__ void __launch_bounds__(kThreads)
    DequantizeColumns(DequantizeArgs a) {
  __shared__ SharedTile<D> tile;
  // Codes of the tile's columns as read in whole lines; the odd pitch keeps
  // neighbouring columns in other banks.
  __shared__ uint2 codes[kTileCols][kColBlocks + 1];
  __shared__ uint8_t scales[kTileCols][kColBlocks];
  const Nvfp4Decode global = MakeNvfp4Decode(*a.amax);
  const TileGrid grid(a.rows, a.cols);
  const int64_t used = (a.rows + kBlock - 1) / kBlock;
  const bool aligned = a.cols * kSizeOf<D> % 16 == 0;
  for (int64_t t = blockIdx.x; t < grid.count; t += gridDim.x) {
    const int64_t row = grid.row(t);
    const int64_t col = grid.col(t);
    const int64_t first = row / kBlock;
    QUANTD_UNROLL
    for (int i = 0; i < kPerThread; ++i) {
      const int item = threadIdx.x + i * kThreads;
      const int line = item / kColBlocks;
      const int block = item % kColBlocks;
      const bool inside = col + line < a.cols && first + block < used;
      uint2 code = make_uint2(0, 0);
      uint8_t scale = 0;
      if (inside) {
        code = reinterpret_cast<const uint2*>(
            a.data + (col + line) * a.data_stride)[first + block];
        scale = static_cast<uint8_t>(
            a.scale[(col + line) * a.scale_stride + first + block]);
      }
      codes[line][block] = code;
      scales[line][block] = scale;
    }
    __syncthreads();
    QUANTD_UNROLL
    for (int i = 0; i < kPerThread; ++i) {
      const int block = ColSlot::block(i);
      const uint2 code = codes[ColSlot::col()][block];
      float v[kBlock];
      DecodeBlock<D>({code.x, code.y, scales[ColSlot::col()][block]}, global,
                     a.signs, v);
      QUANTD_UNROLL
      for (int j = 0; j < kBlock; ++j) {
        StoreBits<D>(EncodeElement<D>(v[j]),
                     tile.at(block * kBlock + j, ColSlot::col()));
      }
    }
    __syncthreads();
    // The next tile's first barrier keeps `tile` until this is done.
    QUANTD_UNROLL
    for (int i = 0; i < kPerThread; ++i) {
      const int r = RowSlot::row(i);
      const int64_t count = a.cols - (col + RowSlot::col());
      if (row + r >= a.rows || count <= 0) continue;
      std::byte* from = tile.at(r, RowSlot::col());
      std::byte* to =
          a.out + ((row + r) * a.cols + col + RowSlot::col()) * kSizeOf<D>;
      if (count >= kBlock && aligned) {
        StoreBlock<D>(LoadBlock<D>(from), to);
      } else {
        for (int j = 0; j < kBlock && j < count; ++j) {
          StoreBits<D>(LoadBits<D>(from + j * kSizeOf<D>), to + j * kSizeOf<D>);
        }
      }
    }
  }
}

// --- launchers --------------------------------------------------------------

template <DType D>
cudaError_t LaunchDequantizeTo(const DequantizeArgs& a, const Queue& queue) {
  if (a.columnwise) {
    const TileGrid grid(a.rows, a.cols);
    DequantizeColumns<D>
        <<<GridFor(grid.count, 8, queue), kThreads, 0, queue.stream>>>(a);
  } else {
    DequantizeRows<D><<<GridForBlocks(a.rows * (a.cols / kBlock), queue),
                        kThreads, 0, queue.stream>>>(a);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchDequantize(const DequantizeArgs& a, const Queue& queue) {
  switch (a.dtype) {
    case DType::kF32:
      return LaunchDequantizeTo<DType::kF32>(a, queue);
    case DType::kF16:
      return LaunchDequantizeTo<DType::kF16>(a, queue);
    case DType::kBF16:
      return LaunchDequantizeTo<DType::kBF16>(a, queue);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace quantd::cuda
