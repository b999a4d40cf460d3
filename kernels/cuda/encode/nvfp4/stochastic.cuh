// Stochastically rounded E2M1 codes and their random bytes, for blocks that are
// not rare (IsRare in kernels/cuda/encode/nvfp4/code_tables.cuh).
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_STOCHASTIC_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_STOCHASTIC_CUH_

#include "kernels/cuda/encode/nvfp4/nearest.cuh"

namespace quantd::cuda {

// Philox4x32-10 of kernels/arith/philox.h for the two copies of a launch.
// Everything that does not depend on offsets is computed on the host. The keys
// of most rounds are the same for both copies, so instructions use them as
// operands.
class PhiloxStreams {
 public:
  // Runs on the host. The columnwise copy has the next subsequence.
  explicit PhiloxStreams(const EncodeParams& p) {
    auto k0 = static_cast<uint32_t>(p.seed);
    auto k1 = static_cast<uint32_t>(p.seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      keys_[2 * round] = k0;
      keys_[2 * round + 1] = k1;
      k0 += kPhiloxW0;
      k1 += kPhiloxW1;
    }
    for (uint64_t copy = 0; copy < 2; ++copy) {
      // The subsequence is half of the first round's counter. `start` is its
      // contribution to the first two rounds.
      const uint64_t subsequence = p.subsequence + copy;
      const uint64_t product =
          uint64_t{kPhiloxM1} * static_cast<uint32_t>(subsequence);
      uint32_t* const start = starts_[copy];
      start[0] = keys_[0] ^ static_cast<uint32_t>(product >> 32);
      start[1] = keys_[1] ^ static_cast<uint32_t>(subsequence >> 32);
      start[2] = static_cast<uint32_t>(product);
    }
  }

  // Draws the 16 random bytes of counter `offset`.
  __device__ __forceinline__ void Draw(bool columns, uint64_t offset,
                                       uint32_t (&words)[4]) const {
    const uint32_t* const start = starts_[columns];
    const uint64_t first = uint64_t{kPhiloxM0} * static_cast<uint32_t>(offset);
    uint32_t c0 = static_cast<uint32_t>(offset >> 32) ^ start[0];
    uint32_t c1 = start[2];
    uint32_t c2 = static_cast<uint32_t>(first >> 32) ^ start[1];
    uint32_t c3 = static_cast<uint32_t>(first);
    QUANTD_UNROLL
    for (int round = 1; round < kPhiloxRounds; ++round) {
      const uint64_t a = uint64_t{kPhiloxM0} * c0;
      const uint64_t b = uint64_t{kPhiloxM1} * c2;
      c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ keys_[2 * round];
      c1 = static_cast<uint32_t>(b);
      c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ keys_[2 * round + 1];
      c3 = static_cast<uint32_t>(a);
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
  }

 private:
  uint32_t keys_[2 * kPhiloxRounds];
  uint32_t starts_[2][3];
};

// The counter of sixteen positions of a line of a copy, as in DrawBytes, and
// the step to the counter of the line's next sixteen. The random bytes of the
// positions must come from a single counter. `row` is the group's first row in
// the payload.
__device__ __forceinline__ uint64_t CounterAt(const EncodeParams& p,
                                              bool columns, int64_t row,
                                              int64_t line, int64_t position) {
  const auto across = static_cast<uint64_t>(p.total_columns);
  const auto first_row = static_cast<uint64_t>(p.row_offset + row);
  const auto first_column = static_cast<uint64_t>(p.column_offset);
  return columns
             ? (first_row + position) / kBlock * across + (first_column + line)
             : (first_row + line) * ((across + kBlock - 1) / kBlock) +
                   (first_column + position) / kBlock;
}
__device__ __forceinline__ uint64_t CounterStep(const EncodeParams& p,
                                                bool columns) {
  return columns ? static_cast<uint64_t>(p.total_columns) : 1;
}

// 2 * a + b. (The compiler would turn the factor into a shift.)
__device__ __forceinline__ uint32_t TwiceAnd(uint32_t a, uint32_t b) {
  uint32_t sum;
  asm("mad.lo.u32 %0, %1, 2, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}

// Converts two values y >= 0, one in each half of a word. Bits from bit 9 on
// are the code. The bits below are the fraction of the step to the next code.
// Values above 6 exceed the last code, 7, but adding a random byte never
// carries out of a half.
//
// Each half is y / 2^14 as an fp16. For y < 1 it is subnormal, a multiple of
// 2^-24. For larger y, the exponent and the first mantissa bit count like
// codes. Stochastic rounding rounds its sum to fp32 (FORMATS.md). This can
// reach the next code only for y < 1/4, if the sum is at most 2^-26 below that
// code. So 2^-26 is added to y, and is cut off again for larger y.
__device__ __forceinline__ uint32_t FractionalCodes(float low, float high) {
  const float a = __fmaf_rz(low, 0x1p-14f, 0x1p-40f);
  const float b = __fmaf_rz(high, 0x1p-14f, 0x1p-40f);
  uint32_t word;
  asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(b), "f"(a));
  return word;
}

// The codes of sixteen elements of type D times m. Byte i of `random` belongs
// to element i.
template <DType D>
__device__ __forceinline__ uint2 StochasticCodes(const Words& x, float m,
                                                 const uint32_t (&random)[4]) {
  uint32_t words[2];
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    const uint32_t* w = x.w + 4 * h;
    // Codes of elements 0 and 2, then 4 and 6; of 1 and 3, then 5 and 7.
    uint32_t even[2];
    uint32_t odd[2];
    QUANTD_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint32_t bytes = random[2 * h + i];
      const uint32_t first = w[2 * i];
      const uint32_t second = w[2 * i + 1];
      even[i] = TwiceAnd(bytes & 0x00FF00FFu,
                         FractionalCodes(fabsf(LowOf<D>(first)) * m,
                                         fabsf(LowOf<D>(second)) * m));
      odd[i] = TwiceAnd(__byte_perm(bytes, 0, 0x4341),
                        FractionalCodes(fabsf(HighOf<D>(first)) * m,
                                        fabsf(HighOf<D>(second)) * m));
      // Values above 6 may have become 8, which is no code.
      even[i] = __vminu2(even[i], 0x0FFF0FFFu);
      odd[i] = __vminu2(odd[i], 0x0FFF0FFFu);
    }
    const uint32_t evens = __byte_perm(even[0], even[1], 0x7531) >> 1;
    const uint32_t odds = __byte_perm(odd[0], odd[1], 0x7531) << 3;
    words[h] = Chosen<0x77777777u>(Chosen<0x0F0F0F0Fu>(evens, odds),
                                   SignsOf(w[0], w[1], w[2], w[3]));
  }
  return make_uint2(words[0], words[1]);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_STOCHASTIC_CUH_
