#include "kernels/arith/codec.h"
#include "kernels/arith/e2m1.h"
#include "kernels/cuda/ptx/e2m1_words.cuh"
#include "kernels/cuda/ptx/fp8_words.cuh"
#include "kernels/cuda/ptx/half_words.cuh"
#include "tests/kernels/gpu/conversions.h"

namespace quantd {
namespace {

using cuda::kConvertsE2M1;

struct Results {
  unsigned long long differing;
  uint32_t pattern;
  uint32_t instruction;
};

template <Conversion kConversion>
constexpr bool kHasInstruction = kConvertsE2M1 ||
                                 (kConversion != Conversion::kToE2M1 &&
                                  kConversion != Conversion::kFromE2M1);

// Whether each of eight patterns from `first` on is converted as by the
// arithmetic.
template <Conversion kConversion>
__device__ bool Agrees(uint32_t first) {
  if constexpr (kConversion == Conversion::kFromE2M1) {
    bool same = true;
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t codes = first + i;
      const uint2 halves = cuda::HalvesOfE2M1(codes);
      const float decoded[] = {cuda::LowOf<DType::kF16>(halves.x),
                               cuda::HighOf<DType::kF16>(halves.x),
                               cuda::LowOf<DType::kF16>(halves.y),
                               cuda::HighOf<DType::kF16>(halves.y)};
      for (int k = 0; k < 4; ++k) {
        const float expected = DecodeE2M1<Scalar>(codes >> (4 * k) & 15u);
        same &= Scalar::Bits(decoded[k]) == Scalar::Bits(expected);
      }
    }
    return same;
  } else {
    float y[8];
    for (uint32_t i = 0; i < 8; ++i) y[i] = __uint_as_float(first + i);
    if constexpr (kConversion == Conversion::kToE2M1) {
      uint32_t expected = 0;
      for (int i = 0; i < 8; ++i) {
        expected |= EncodeE2M1<Scalar>(y[i]) << (4 * i);
      }
      return cuda::E2M1Of(y) == expected;
    } else {
      constexpr bool kE4M3 = kConversion == Conversion::kToE4M3;
      constexpr DType kTo = kE4M3 ? DType::kE4M3 : DType::kE5M2;
      uint32_t expected[2] = {};
      for (int i = 0; i < 8; ++i) {
        expected[i / 4] |=
            (kE4M3 ? EncodeE4M3<Scalar>(y[i]) : EncodeE5M2<Scalar>(y[i]))
            << (8 * (i % 4));
      }
      return cuda::CodesOf<kTo>(y[0], y[1], y[2], y[3]) == expected[0] &&
             cuda::CodesOf<kTo>(y[4], y[5], y[6], y[7]) == expected[1];
    }
  }
}

template <Conversion kConversion>
__global__ void CompareGroups(PatternGroups groups, Results* results) {
  if constexpr (kHasInstruction<kConversion>) {
    const uint64_t thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (thread == 0) results->instruction = 1;
    for (uint64_t i = thread; i < groups.count;
         i += uint64_t{gridDim.x} * blockDim.x) {
      const auto pattern =
          static_cast<uint32_t>(8 * (groups.first + i * groups.step));
      if (Agrees<kConversion>(pattern)) continue;
      atomicAdd(&results->differing, 1ull);
      results->pattern = pattern;
    }
  }
}

template <Conversion kConversion>
void Launch(const PatternGroups& groups, Results* results) {
  CompareGroups<kConversion><<<1024, 256>>>(groups, results);
}

}  // namespace

cudaError_t Compare(Conversion conversion, const PatternGroups& groups,
                    Compared* compared) {
  Results* results;
  if (cudaError_t e =
          cudaMalloc(reinterpret_cast<void**>(&results), sizeof(Results));
      e != cudaSuccess) {
    return e;
  }
  cudaMemsetAsync(results, 0, sizeof(Results));
  switch (conversion) {
    case Conversion::kToE2M1:
      Launch<Conversion::kToE2M1>(groups, results);
      break;
    case Conversion::kFromE2M1:
      Launch<Conversion::kFromE2M1>(groups, results);
      break;
    case Conversion::kToE4M3:
      Launch<Conversion::kToE4M3>(groups, results);
      break;
    case Conversion::kToE5M2:
      Launch<Conversion::kToE5M2>(groups, results);
      break;
  }
  Results found = {};
  const cudaError_t error =
      cudaMemcpy(&found, results, sizeof(found), cudaMemcpyDeviceToHost);
  cudaFree(results);
  *compared = {found.instruction != 0, found.differing, found.pattern};
  return error;
}

}  // namespace quantd
