// Philox4x32-10, a counter-based generator: 128 random bits are a function of
// a key and a counter, so that the bits of an element depend on where it is
// and on nothing else. (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", 2011.)
#ifndef QUANTD_KERNELS_ARITH_PHILOX_H_
#define QUANTD_KERNELS_ARITH_PHILOX_H_

#include <cstdint>

#include "kernels/arith/lanes.h"

namespace quantd {
inline namespace QUANTD_ARITH {

inline constexpr int kPhiloxRounds = 10;
// What a round multiplies halves of the counter with, and adds to the key.
inline constexpr uint32_t kPhiloxM0 = 0xD2511F53u;
inline constexpr uint32_t kPhiloxM1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxW0 = 0x9E3779B9u;
inline constexpr uint32_t kPhiloxW1 = 0xBB67AE85u;

// A 64-bit counter for each lane.
template <typename L>
struct Counter {
  typename L::U low;
  typename L::U high;
};

// first, first + step, first + 2 * step ... in the lanes.
template <typename L>
QUANTD_FN Counter<L> CountBy(uint64_t first, uint64_t step) {
  Counter<L> c;
  if constexpr (L::kWidth == 1) {
    c.low = static_cast<uint32_t>(first);
    c.high = static_cast<uint32_t>(first >> 32);
  } else {
    L::Progression(first, step, &c.low, &c.high);
  }
  return c;
}

// Four random words a lane.
template <typename L>
QUANTD_FN void Philox(Counter<L> offset, uint64_t subsequence, uint64_t seed,
                      typename L::U* words) {
  using U = typename L::U;
  U c0 = offset.low;
  U c1 = offset.high;
  U c2 = U{} + static_cast<uint32_t>(subsequence);
  U c3 = U{} + static_cast<uint32_t>(subsequence >> 32);
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

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_PHILOX_H_
