// Stores scales and codes in a copy of any format, and makes the LineScale of a
// line.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_GENERIC_STORE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_GENERIC_STORE_CUH_

#include "kernels/arith/encode.h"
#include "kernels/cuda/tile/span.cuh"

namespace quantd::cuda {

template <bool kOther>
__device__ __forceinline__ LineScale<Scalar> LineScaleOf(const EncodeParams& p,
                                                         const CopyTask& copy,
                                                         int64_t line) {
  return MakeLineScale<Scalar, kOther>(
      p, AmaxOf(copy, line),
      copy.tensor_scale != nullptr ? *copy.tensor_scale : 1.0f);
}

__device__ __forceinline__ void StoreScale(const EncodeParams& p,
                                           const CopyTask& copy, int64_t line,
                                           int64_t number, uint32_t stored) {
  // If lines share a scale, only the first line stores it.
  if (copy.scale_lines != 1 && line % copy.scale_lines != 0) return;
  const int64_t index = ScaleIndex(copy, line, number);
  StoreScaleAs(p.scale, stored, index, copy.scale);
}

// Stores the codes of 16 positions from `at` on. Skips positions beyond the
// copy.
__device__ __forceinline__ void StoreCodes(const EncodeParams& p,
                                           const CopyTask& copy, int64_t line,
                                           int64_t at, const uint32_t* words) {
  if (p.element == DType::kE2M1x2) {
    // Lines are whole blocks, so this is aligned.
    std::byte* to = copy.data + line * copy.data_line + at / 2;
    *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
    return;
  }
  std::byte* to = copy.data + line * copy.data_line + at * copy.data_position;
  const int64_t count = copy.padded - at;
  if (copy.data_position == 1 && count >= kBlock && IsAligned(to)) {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(words[0], words[1], words[2], words[3]);
    return;
  }
  for (int i = 0; i < kBlock && i < count; ++i) {
    to[i * copy.data_position] =
        static_cast<std::byte>(words[i / 4] >> (8 * (i % 4)));
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_GENERIC_STORE_CUH_
