// Philox4x32-10, a counter-based generator: 128 random bits are a function of a
// key and a counter, so the bits of an element depend only on its position.
// (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.)
#ifndef QUANTD_KERNELS_ARITH_PHILOX_H_
#define QUANTD_KERNELS_ARITH_PHILOX_H_

#include <cstdint>

#include "kernels/arith/lanes.h"

namespace quantd {
inline namespace QUANTD_ARITH {

inline constexpr int kPhiloxRounds = 10;
// Multipliers of the counter's halves, and increments of the key, in each
// round.
inline constexpr uint32_t kPhiloxM0 = 0xD2511F53u;
inline constexpr uint32_t kPhiloxM1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxW0 = 0x9E3779B9u;
inline constexpr uint32_t kPhiloxW1 = 0xBB67AE85u;

// Philox for one lane in the low half of each 64-bit number of a vector; the
// high halves are arbitrary.
template <typename L>
QUANTD_FN void PhiloxOfHalves(typename L::Wide (&c)[4], uint64_t seed) {
  using Wide = typename L::Wide;
  Wide k0 = Wide{} + static_cast<uint32_t>(seed);
  Wide k1 = Wide{} + (seed >> 32);
  // Without this, GCC computes the keys of all rounds as scalars and broadcasts
  // each of them.
  L::HideSource(&k0);
  L::HideSource(&k1);
  QUANTD_UNROLL
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const Wide product0 = L::MulLow(c[0], kPhiloxM0);
    const Wide product1 = L::MulLow(c[2], kPhiloxM1);
    c[0] = (product1 >> 32) ^ (c[1] ^ k0);
    c[1] = product1;
    c[2] = (product0 >> 32) ^ (c[3] ^ k1);
    c[3] = product0;
    k0 += kPhiloxW0;
    k1 += kPhiloxW1;
  }
}

// Four random words for each lane. Lane i has the counter first + i * step.
template <typename L>
QUANTD_FN void Philox(uint64_t first, uint64_t step, uint64_t subsequence,
                      uint64_t seed, typename L::U* words) {
  using U = typename L::U;
  if constexpr (L::kWidth > 1) {
    using Wide = typename L::Wide;
    // Handles every second lane at a time, because vectors multiply 32-bit
    // numbers that way.
    Wide index;
    for (int i = 0; i < L::kWidth / 2; ++i) index[i] = 2 * i;
    Wide c[2][4];
    for (int odd = 0; odd < 2; ++odd) {
      const Wide offset = index * step + (first + odd * step);
      c[odd][0] = offset;
      c[odd][1] = offset >> 32;
      c[odd][2] = Wide{} + subsequence;
      c[odd][3] = Wide{} + (subsequence >> 32);
      PhiloxOfHalves<L>(c[odd], seed);
    }
    for (int i = 0; i < 4; ++i) {
      const Wide even = c[0][i] & 0xFFFFFFFFu;
      words[i] = reinterpret_cast<U>(even | c[1][i] << 32);
    }
    return;
  } else {
    U c0 = static_cast<uint32_t>(first);
    U c1 = static_cast<uint32_t>(first >> 32);
    U c2 = static_cast<uint32_t>(subsequence);
    U c3 = static_cast<uint32_t>(subsequence >> 32);
    uint32_t k0 = static_cast<uint32_t>(seed);
    uint32_t k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const U high0 = L::MulHigh(c0, kPhiloxM0);
      const U high1 = L::MulHigh(c2, kPhiloxM1);
      const U low0 = c0 * kPhiloxM0;
      const U low1 = c2 * kPhiloxM1;
      c0 = high1 ^ c1 ^ k0;
      c1 = low1;
      c2 = high0 ^ c3 ^ k1;
      c3 = low0;
      k0 += kPhiloxW0;
      k1 += kPhiloxW1;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
  }
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_PHILOX_H_
