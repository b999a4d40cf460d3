// Moves blocks of 16 elements between memory and fp32 registers, and sizes the
// grids that loop over blocks.
#ifndef QUANTD_KERNELS_CUDA_TILE_ELEMENT_CUH_
#define QUANTD_KERNELS_CUDA_TILE_ELEMENT_CUH_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/arith/nvfp4.h"
#include "kernels/cuda/args.h"
#include "kernels/cuda/queue.h"
#include "quantd/format.h"

namespace quantd::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kThreads = 256;

// Bytes of an element, for device code, which cannot call SizeOf.
template <DType D>
inline constexpr int kSizeOf = static_cast<int>(SizeOf(D));

// The number of CTAs of a kernel that loops over `work` items: at most `per_sm`
// for each multiprocessor.
inline unsigned GridFor(int64_t work, int per_sm, const Queue& queue) {
  const int64_t most = int64_t{queue.multiprocessors} * per_sm;
  return static_cast<unsigned>(work < most ? work : most);
}
inline unsigned GridForBlocks(int64_t blocks, const Queue& queue) {
  return GridFor((blocks + kThreads - 1) / kThreads, 8, queue);
}

// Calls `launch` with the input or output type D as a constant.
template <typename F>
cudaError_t ForDType(DType d, const F& launch) {
  switch (d) {
    case DType::kF32:
      return launch(std::integral_constant<DType, DType::kF32>{});
    case DType::kF16:
      return launch(std::integral_constant<DType, DType::kF16>{});
    case DType::kBF16:
      return launch(std::integral_constant<DType, DType::kBF16>{});
    default:
      return cudaErrorInvalidValue;
  }
}

// Calls `launch` with the type of a bf16 or fp16 input.
template <typename F>
cudaError_t ForTwoByteType(const EncodeArgs& a, const F& launch) {
  if (a.params.input == DType::kF16) {
    return launch(std::integral_constant<DType, DType::kF16>{});
  }
  return launch(std::integral_constant<DType, DType::kBF16>{});
}

// The first item of this thread, and the step to its next one.
__device__ __forceinline__ int64_t FirstItem() {
  return int64_t{blockIdx.x} * kThreads + threadIdx.x;
}
__device__ __forceinline__ int64_t ItemStep() {
  return int64_t{gridDim.x} * kThreads;
}

// 16 elements as in memory.
template <DType D>
struct RawBlock {
  static constexpr int kQuads = kSizeOf<D>;
  uint32_t words[4 * kQuads];
};

// Loads a block. `p` is aligned to 16 bytes.
template <DType D>
__device__ __forceinline__ RawBlock<D> LoadBlock(const std::byte* p) {
  RawBlock<D> raw;
  QUANTD_UNROLL
  for (int i = 0; i < RawBlock<D>::kQuads; ++i) {
    const uint4 q = reinterpret_cast<const uint4*>(p)[i];
    raw.words[4 * i] = q.x;
    raw.words[4 * i + 1] = q.y;
    raw.words[4 * i + 2] = q.z;
    raw.words[4 * i + 3] = q.w;
  }
  return raw;
}

template <DType D>
__device__ __forceinline__ void StoreBlock(const RawBlock<D>& raw,
                                           std::byte* p) {
  QUANTD_UNROLL
  for (int i = 0; i < RawBlock<D>::kQuads; ++i) {
    reinterpret_cast<uint4*>(p)[i] =
        make_uint4(raw.words[4 * i], raw.words[4 * i + 1], raw.words[4 * i + 2],
                   raw.words[4 * i + 3]);
  }
}

// One stored element, in the low bits of a word.
template <DType D>
__device__ __forceinline__ uint32_t LoadBits(const std::byte* p) {
  if constexpr (D == DType::kF32) {
    return *reinterpret_cast<const uint32_t*>(p);
  } else {
    return *reinterpret_cast<const uint16_t*>(p);
  }
}
template <DType D>
__device__ __forceinline__ void StoreBits(uint32_t bits, std::byte* p) {
  if constexpr (D == DType::kF32) {
    *reinterpret_cast<uint32_t*>(p) = bits;
  } else {
    *reinterpret_cast<uint16_t*>(p) = static_cast<uint16_t>(bits);
  }
}

// Loads the first `count` of 16 elements, with any alignment. The others are 0.
template <DType D>
__device__ __forceinline__ RawBlock<D> LoadPart(const std::byte* p,
                                                int64_t count) {
  constexpr int kPerWord = 4 / kSizeOf<D>;
  RawBlock<D> raw = {};
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    if (i < count) {
      raw.words[i / kPerWord] |= LoadBits<D>(p + i * kSizeOf<D>)
                                 << (16 * (i % kPerWord));
    }
  }
  return raw;
}

template <DType D>
__device__ __forceinline__ float DecodeElement(uint32_t bits) {
  if constexpr (D == DType::kF32) {
    return Scalar::Float(bits);
  } else if constexpr (D == DType::kBF16) {
    return DecodeBf16<Scalar>(bits);
  } else {
    return DecodeF16<Scalar>(bits);
  }
}
// Converts to a stored element. Every NaN becomes the canonical one.
template <DType D>
__device__ __forceinline__ uint32_t EncodeElement(float x) {
  if constexpr (D == DType::kF32) {
    return IsNan<Scalar>(x) ? kNanBits : Scalar::Bits(x);
  } else if constexpr (D == DType::kBF16) {
    return EncodeBf16<Scalar>(x);
  } else {
    return EncodeF16<Scalar>(x);
  }
}

template <DType D>
__device__ __forceinline__ void Decode(const RawBlock<D>& raw,
                                       float (&v)[kBlock]) {
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    if constexpr (D == DType::kF32) {
      v[i] = Scalar::Float(raw.words[i]);
    } else {
      v[i] = DecodeElement<D>((raw.words[i / 2] >> (16 * (i % 2))) & 0xFFFFu);
    }
  }
}
template <DType D>
__device__ __forceinline__ RawBlock<D> Encode(const float (&v)[kBlock]) {
  RawBlock<D> raw;
  QUANTD_UNROLL
  for (int i = 0; i < 4 * RawBlock<D>::kQuads; ++i) {
    if constexpr (D == DType::kF32) {
      raw.words[i] = EncodeElement<D>(v[i]);
    } else {
      raw.words[i] = EncodeElement<D>(v[2 * i]) | EncodeElement<D>(v[2 * i + 1])
                                                      << 16;
    }
  }
  return raw;
}

// Seen bits of the input values `v`, whose MaxMagnitude is `max`.
__device__ __forceinline__ uint32_t SeenIn(const float (&v)[kBlock],
                                           uint32_t max) {
  if (max < kInfBits) return 0;
  uint32_t seen = 0;
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    const uint32_t magnitude = Scalar::Bits(v[i]) & kAbsMask;
    seen |= magnitude > kInfBits ? kSeenNan : 0u;
    seen |= magnitude == kInfBits ? kSeenInf : 0u;
  }
  return seen;
}

// Reports Seen bits at the end of a kernel. Mostly `bits` is 0.
__device__ __forceinline__ void Report(uint32_t bits, uint32_t* seen) {
  if (bits != 0) atomicOr(seen, bits);
}
__device__ __forceinline__ void Report(uint32_t bits, Found* found) {
  Report(bits, &found->seen);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_ELEMENT_CUH_
