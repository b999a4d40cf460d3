// Addresses of values, codes and factors of whole runs, in copies that are not
// rotated. kernels/cuda/choice.cc ensures that numbers of rows, columns and
// bytes of a row fit into 31 bits.
#ifndef QUANTD_KERNELS_CUDA_ERRORS_PLAIN_PLACES_CUH_
#define QUANTD_KERNELS_CUDA_ERRORS_PLAIN_PLACES_CUH_

#include "kernels/arith/decode.h"
#include "kernels/cuda/decode/stored.cuh"
#include "kernels/cuda/errors/plain_runs.cuh"

namespace quantd::cuda {

// Not inlined, because it is seldom called.
inline __device__ __noinline__ float FactorUnder(const float* amax,
                                                 uint32_t stored, float range) {
  return Nvfp4Factor<Scalar>(stored, MakeNvfp4Decode<Scalar>(*amax, range));
}

// The factors of a thread's runs. The addresses of their scales are a constant
// step apart.
template <DType E>
class PlainFactors {
 public:
  // `line` and `at` are the line and the position of the first run. Every next
  // run is `down` rows below, a multiple of 32, and within the same tile.
  __device__ __forceinline__ PlainFactors(const EncodeParams& p,
                                          const CopyTask& copy, bool columnwise,
                                          int line, int at, int down)
      : p_(p), copy_(copy) {
    if (E == DType::kE2M1x2 && p.scaling == Scaling::kNvfp4) {
      decode_ = MakeNvfp4Decode<Scalar>(*copy.amax, p.range);
    }
    // A tensor's only scale is number 0.
    const bool tensor = p.scaling == Scaling::kTensor;
    const int line_shift =
        tensor ? 31 : __ffs(static_cast<int>(copy.scale_lines)) - 1;
    const int block_shift = p.block == 0 ? 31 : __ffs(p.block) - 1;
    const auto by_line = static_cast<uint32_t>(copy.scale_line);
    const auto by_block = static_cast<uint32_t>(copy.scale_block);
    const uint32_t number = static_cast<uint32_t>(at) >> block_shift;
    const int blocks = down >> block_shift;
    if (copy.swizzled) {
      const auto l = static_cast<uint32_t>(line);
      const uint32_t across = (static_cast<uint32_t>(copy.blocks) + 3) / 4;
      index_ = (uint64_t{l / 128} * across + number / 4) * kSwizzledTile +
               (l % 32 * kSwizzledLine + l % 128 / 32 * kSwizzledQuarter +
                number % 4);
      step_ = !columnwise       ? down / 32 * kSwizzledQuarter
              : blocks % 4 == 0 ? blocks / 4 * kSwizzledTile
                                : blocks;
      other_ = kSwizzledLine;
    } else {
      const uint32_t l = static_cast<uint32_t>(line) >> line_shift;
      index_ = uint64_t{l} * by_line + uint64_t{number} * by_block;
      step_ = static_cast<int>(columnwise ? blocks * by_block
                                          : (down >> line_shift) * by_line);
      other_ = line_shift == 0 ? static_cast<int>(by_line) : 0;
    }
  }

  // The factor of the next run, which is in `line`.
  __device__ __forceinline__ float Next(int line) const {
    return At(index_, line);
  }
  // The factor of the same run in the line after `line`.
  __device__ __forceinline__ float Other(int line) const {
    return At(index_ + other_, line + 1);
  }
  __device__ __forceinline__ void Advance() { index_ += step_; }

 private:
  __device__ __forceinline__ float At(int64_t index, int line) const {
    if (E != DType::kE2M1x2 && p_.scaling != Scaling::kMx) {
      return __ldg(reinterpret_cast<const float*>(copy_.scale) + index);
    }
    const auto stored =
        uint32_t{__ldg(reinterpret_cast<const uint8_t*>(copy_.scale) + index)};
    if (E != DType::kE2M1x2 || p_.scaling == Scaling::kMx) {
      return DecodeE8M0<Scalar>(stored);
    }
    if (copy_.amax_line == 0) return Nvfp4Factor<Scalar>(stored, decode_);
    return FactorUnder(copy_.amax + line * copy_.amax_line, stored, p_.range);
  }

  const EncodeParams& p_;
  const CopyTask& copy_;
  Nvfp4Decode<Scalar> decode_ = {};
  int64_t index_;
  int step_;
  int other_;
};

// The functions below use __ldg. The compiler cannot know that pointers from a
// table point to global memory that no thread writes meanwhile.

// Loads sixteen aligned elements of a row.
template <DType D>
__device__ __forceinline__ void LoadRow(const std::byte* from,
                                        RawBlock<D>* raw) {
  QUANTD_UNROLL
  for (int i = 0; i < RawBlock<D>::kQuads; ++i) {
    const uint4 q = __ldg(reinterpret_cast<const uint4*>(from) + i);
    raw->words[4 * i] = q.x;
    raw->words[4 * i + 1] = q.y;
    raw->words[4 * i + 2] = q.z;
    raw->words[4 * i + 3] = q.w;
  }
}

// Loads sixteen rows of two neighbouring columns. Rows are `pitch` bytes apart.
template <DType D>
__device__ __forceinline__ void LoadColumns(const std::byte* x, int pitch,
                                            uint32_t (&first)[kRun],
                                            uint32_t (&second)[kRun]) {
  QUANTD_UNROLL
  for (int i = 0; i < kRun; ++i) {
    const std::byte* const from = x + int64_t{pitch} * i;
    if constexpr (D == DType::kF32) {
      const uint2 two = __ldg(reinterpret_cast<const uint2*>(from));
      first[i] = two.x;
      second[i] = two.y;
    } else {
      // One word holds an element of each column.
      first[i] = __ldg(reinterpret_cast<const uint32_t*>(from));
    }
  }
}

// Loads sixteen codes of one byte each.
__device__ __forceinline__ void LoadBytes(const std::byte* from,
                                          uint32_t (&words)[4]) {
  QUANTD_UNROLL
  for (int i = 0; i < kRun; ++i) {
    words[i / 4] |= uint32_t{__ldg(reinterpret_cast<const uint8_t*>(from) + i)}
                    << (8 * (i % 4));
  }
}
// Loads sixteen aligned codes.
template <DType E>
__device__ __forceinline__ void LoadWords(const std::byte* from,
                                          uint32_t (&words)[4]) {
  if constexpr (E == DType::kE2M1x2) {
    const uint2 codes = __ldg(reinterpret_cast<const uint2*>(from));
    words[0] = codes.x;
    words[1] = codes.y;
  } else {
    const uint4 codes = __ldg(reinterpret_cast<const uint4*>(from));
    words[0] = codes.x;
    words[1] = codes.y;
    words[2] = codes.z;
    words[3] = codes.w;
  }
}

// Codes of two neighbouring lines of the columnwise copy. `from` is the address
// of the next code of the first line. `pitch` is the distance in bytes between
// lines or, if the copy is not transposed, between positions.
template <DType E>
struct CodesOfTwo {
  const std::byte* from;
  uint32_t pitch;
  bool in_place;

  __device__ __forceinline__ CodesOfTwo(const CopyTask& copy, int line, int at)
      : in_place(E != DType::kE2M1x2 && copy.data_position != 1) {
    pitch =
        static_cast<uint32_t>(in_place ? copy.data_position : copy.data_line);
    const auto l = static_cast<uint32_t>(line);
    const auto p = static_cast<uint32_t>(at);
    from = copy.data + (in_place ? uint64_t{p} * pitch + l
                                 : uint64_t{l} * pitch + BytesOf(p));
  }

  // Loads the codes of sixteen positions.
  __device__ __forceinline__ void Load(uint32_t (&first)[4],
                                       uint32_t (&second)[4]) const {
    if constexpr (E == DType::kE2M1x2) {
      LoadWords<E>(from, first);
      LoadWords<E>(from + pitch, second);
    } else if (in_place) {
      QUANTD_UNROLL
      for (int i = 0; i < 4; ++i) {
        uint32_t two[4];
        QUANTD_UNROLL
        for (int j = 0; j < 4; ++j) {
          two[j] = __ldg(reinterpret_cast<const uint16_t*>(
              from + uint64_t{pitch} * (4 * i + j)));
        }
        const uint32_t low = __byte_perm(two[0], two[1], 0x5140);
        const uint32_t high = __byte_perm(two[2], two[3], 0x5140);
        first[i] = __byte_perm(low, high, 0x5410);
        second[i] = __byte_perm(low, high, 0x7632);
      }
    } else if (pitch % 16 == 0) {
      LoadWords<E>(from, first);
      LoadWords<E>(from + pitch, second);
    } else {
      LoadBytes(from, first);
      LoadBytes(from + pitch, second);
    }
  }

  __device__ __forceinline__ void Advance(uint32_t positions) {
    from += in_place ? uint64_t{pitch} * positions : BytesOf(positions);
  }

 private:
  static __device__ __forceinline__ uint32_t BytesOf(uint32_t positions) {
    return E == DType::kE2M1x2 ? positions / 2 : positions;
  }
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ERRORS_PLAIN_PLACES_CUH_
