// Addresses of scales and the encoding of rare blocks, for the tuned NVFP4
// kernels. Input is bf16 (fp16 where stated). kernels/cuda/tile/packed.cuh has
// the fast arithmetic.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_ENCODE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_ENCODE_CUH_

#include "kernels/arith/encode.h"
#include "kernels/cuda/encode/nvfp4/code_tables.cuh"
#include "kernels/cuda/tile/packed.cuh"
#include "kernels/cuda/tile/span.cuh"

namespace quantd::cuda {

__device__ __forceinline__ Words LoadWords(const std::byte* p) {
  const uint4 a = reinterpret_cast<const uint4*>(p)[0];
  const uint4 b = reinterpret_cast<const uint4*>(p)[1];
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

// Addresses of a copy's scales in the 128 lines of a chunk: of one block of
// each line, or of four neighbouring blocks if the first is a multiple of four.
struct ScaleColumn {
  std::byte* first;  // line 0 of the chunk
  uint32_t pitch;    // bytes to the next line; 0: swizzled

  __device__ __forceinline__ ScaleColumn(const CopyTask& copy, uint32_t line,
                                         uint32_t block) {
    if (copy.swizzled) {
      const uint32_t across = (static_cast<uint32_t>(copy.blocks) + 3) / 4;
      first = copy.scale +
              uint64_t{SwizzledTile(line, block, across)} * kSwizzledTile +
              block % 4;
      pitch = 0;
    } else {
      pitch = static_cast<uint32_t>(copy.scale_line);
      first = copy.scale + uint64_t{line} * pitch + block;
    }
  }
  // `line` from 0 to 127.
  __device__ __forceinline__ std::byte* at(uint32_t line) const {
    const uint32_t swizzled =
        line % 32 * kSwizzledLine + line / 32 * kSwizzledQuarter;
    return first + (pitch == 0 ? swizzled : line * pitch);
  }
};

// The codes of sixteen elements and their scale.
struct Unit {
  uint2 codes;
  uint32_t scale;
};

// Encodes sixteen values with a given scale by the generic functions. `random`
// is nullptr for rounding to nearest.
__device__ __forceinline__ Unit EncodeUnder(const EncodeParams& p,
                                            const float (&v)[kBlock],
                                            const BlockScale<Scalar>& scale,
                                            const RandomBytes<Scalar>* random) {
  uint32_t words[4];
  EncodeSixteen<Scalar>(p, v, scale.m, random, words);
  return {make_uint2(words[0], words[1]), scale.stored};
}

// Encodes any block with the generic functions. `x` is the block before its
// rotation. `random` is nullptr for rounding to nearest. Adds the block's Seen
// bits to `*seen`.
template <DType D = DType::kBF16>
static __device__ __noinline__ Unit
EncodeRare(const EncodeParams& p, Words x, const float* signs, float amax,
           const RandomBytes<Scalar>* random, uint32_t* seen) {
  float v[kBlock];
  Unpack<D>(x, v);
  uint32_t max, clean;
  FindMaxima<Scalar>(v, kBlock, &max, &clean);
  Report(SeenIn(max, clean), seen);
  if (signs != nullptr) RotateSpan(v, kBlock, signs);
  FindMaxima<Scalar>(v, kBlock, &max, &clean);
  const LineScale<Scalar> line = MakeLineScale<Scalar>(p, amax, 1.0f);
  return EncodeUnder(p, v, ScaleOfBlock<Scalar>(p, line, v, max, clean),
                     random);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_ENCODE_CUH_
