// The oracle's randomized Hadamard transform.
#ifndef QUANTD_TESTS_ORACLE_RHT_H_
#define QUANTD_TESTS_ORACLE_RHT_H_

#include <array>
#include <cstdint>

namespace quantd::oracle {

// A sign mask: bit i is set iff sign i is -1; the low word comes first.
struct Mask {
  // A mask for dimension 16: the bits above are 0.
  constexpr Mask(uint16_t low = 0)  // NOLINT(google-explicit-constructor)
      : words{low, 0} {}
  constexpr Mask(uint64_t first, uint64_t second) : words{first, second} {}
  std::array<uint64_t, 2> words;
};
// The 16 bits repeated eight times.
Mask Repeat(uint16_t bits);

// Rotates `n` values in place, n in {16, 32, 64, 128}, rounding only to fp32.
void Rotate(float* x, const Mask& mask, int n = 16);
void RotateBack(float* y, const Mask& mask, int n = 16);

}  // namespace quantd::oracle

#endif  // QUANTD_TESTS_ORACLE_RHT_H_
