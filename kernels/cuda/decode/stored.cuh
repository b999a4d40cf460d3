// Loads sixteen codes and a scale from a copy of any format: the inverse of
// kernels/cuda/encode/generic/store.cuh.
#ifndef QUANTD_KERNELS_CUDA_DECODE_STORED_CUH_
#define QUANTD_KERNELS_CUDA_DECODE_STORED_CUH_

#include "kernels/arith/block_scale.h"
#include "kernels/cuda/decode/codes.cuh"
#include "kernels/cuda/tile/span.cuh"

namespace quantd::cuda {

// Loads the codes of 16 positions from `at` on. `words` must be zeros, which
// missing positions keep.
__device__ __forceinline__ void LoadCodes(DType element, const CopyTask& copy,
                                          int64_t line, int64_t at,
                                          uint32_t (&words)[4]) {
  if (element == DType::kE2M1x2) {
    // Lines are whole blocks, so this is aligned.
    const uint2 codes = *reinterpret_cast<const uint2*>(
        copy.data + line * copy.data_line + at / 2);
    words[0] = codes.x;
    words[1] = codes.y;
    return;
  }
  const std::byte* from =
      copy.data + line * copy.data_line + at * copy.data_position;
  const int64_t count = copy.padded - at;
  if (copy.data_position == 1 && count >= kBlock && IsAligned(from)) {
    const uint4 codes = *reinterpret_cast<const uint4*>(from);
    words[0] = codes.x;
    words[1] = codes.y;
    words[2] = codes.z;
    words[3] = codes.w;
    return;
  }
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    if (i < count) {
      words[i / 4] |= static_cast<uint32_t>(from[i * copy.data_position])
                      << (8 * (i % 4));
    }
  }
}

// Loads a scale: a code, or the bits of fp32. `index` is a ScaleIndex.
__device__ __forceinline__ uint32_t LoadScale(DType type, const CopyTask& copy,
                                              int64_t index) {
  switch (type) {
    case DType::kF32:
      return reinterpret_cast<const uint32_t*>(copy.scale)[index];
    case DType::kF16:
    case DType::kBF16:
      return ScaleFromType<Scalar>(
          type, reinterpret_cast<const uint16_t*>(copy.scale)[index]);
    default:
      return static_cast<uint32_t>(copy.scale[index]);
  }
}

// Decodes 16 codes, without their scale. The result of NaN is undefined.
__device__ __forceinline__ void DecodeBlock(DType element,
                                            const uint32_t* words,
                                            float (&v)[kBlock]) {
  const auto decode = [&]<DType E>() {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock / 4; ++i) {
      DecodeFour<E>(FourOf<E>(words, i), v + 4 * i);
    }
  };
  switch (element) {
    case DType::kE2M1x2:
      return decode.template operator()<DType::kE2M1x2>();
    case DType::kE4M3:
      return decode.template operator()<DType::kE4M3>();
    default:
      return decode.template operator()<DType::kE5M2>();
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_DECODE_STORED_CUH_
