// NVFP4 of one fp32 tensor, rowwise copy alone, with a block for each thread.
// Reading four bytes for each element takes so long that no tuning is needed.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tile/element.cuh"

namespace quantd::cuda {
namespace {

constexpr DType kType = DType::kF32;

template <bool kRht>
__global__ void __launch_bounds__(kThreads)
    QuantizeRows(const __grid_constant__ EncodeArgs a) {
  const Nvfp4Encode global =
      MakeNvfp4Encode(*a.first.rowwise.amax, kNvfp4Range448);
  const int64_t per_row = a.list.cols / kBlock;
  const int64_t blocks = a.first.rows * per_row;
  // Avoids a 64-bit division, which costs more than the rest of the addressing.
  const bool packed_scales = a.first.rowwise.scale_line == per_row;
  uint32_t seen = 0;
  for (int64_t b = FirstItem(); b < blocks; b += ItemStep()) {
    const std::byte* from = a.first.x + b * kBlock * kSizeOf<kType>;
    float v[kBlock];
    Decode<kType>(LoadBlock<kType>(from), v);
    uint32_t max;
    if constexpr (kRht) {
      max = RotateToBf16<Scalar>(v, a.first.rowwise.signs);
    } else {
      max = MaxMagnitude<Scalar>(v);
    }
    // Rotated values are finite only if all inputs are.
    if (max >= kInfBits) {
      float raw[kBlock];
      Decode<kType>(LoadBlock<kType>(from), raw);
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

}  // namespace

cudaError_t LaunchQuantizeRows(const EncodeArgs& a, const Queue& queue) {
  const unsigned ctas =
      GridForBlocks(a.first.rows * (a.list.cols / kBlock), queue);
  if (a.first.rowwise.signs != nullptr) {
    QuantizeRows<true><<<ctas, kThreads, 0, queue.stream>>>(a);
  } else {
    QuantizeRows<false><<<ctas, kThreads, 0, queue.stream>>>(a);
  }
  return cudaGetLastError();
}

}  // namespace quantd::cuda
