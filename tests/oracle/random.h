// The oracle's stochastic rounding: a random byte for every element of the
// global matrix, and rounding with it.
#ifndef QUANTD_TESTS_ORACLE_RANDOM_H_
#define QUANTD_TESTS_ORACLE_RANDOM_H_

#include <array>
#include <cstdint>

namespace quantd::oracle {

// Philox4x32: the four words of output number `offset`, which has 128 bits.
std::array<uint32_t, 4> Philox(uint64_t seed, uint64_t subsequence,
                               uint64_t offset, int rounds = 10);

// The parameters of the random bytes of a request.
struct Randomness {
  uint64_t seed = 0;
  uint64_t seed_offset = 0;
  bool columnwise = false;
  int64_t columns = 0;  // columns of the global matrix
};
// The byte of the element at row m, column k of the global matrix.
uint8_t RandomByte(const Randomness& r, int64_t m, int64_t k);

// Rounds up if the fraction of the step, in 256ths, plus `byte` reaches 256.
uint8_t StochasticE2m1Code(float v, uint8_t byte);

}  // namespace quantd::oracle

#endif  // QUANTD_TESTS_ORACLE_RANDOM_H_
