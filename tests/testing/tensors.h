// Seeded tensors that contain difficult values. Equal arguments give equal
// bytes on every machine: only integer arithmetic and exact scaling are used.
#ifndef QUANTD_TESTS_TESTING_TENSORS_H_
#define QUANTD_TESTS_TESTING_TENSORS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/oracle/oracle.h"

namespace quantd {

enum class Flavor {
  kGaussian,   // bell-shaped, standard deviation about 1
  kOutliers,   // as kGaussian, one element in 64 up to 2^12 times larger
  kSpread,     // over most of the type's exponents, block by block
  kTies,       // on and next to the midpoints of E2M1 and E4M3
  kTiny,       // as kTies, around and below the least normal number; one
               // magnitude for the whole tensor
  kHuge,       // as kTies, near the largest number
  kLonely,     // one block in 64 of any magnitude, all others zero or
               // subnormal
  kNasty,      // subnormals, -0, zeros, the largest and the smallest values;
               // also whole blocks of zeros
  kNonFinite,  // kNasty with NaN and Inf, one or several in some blocks
  kRaw,        // any bit pattern
};
inline constexpr Flavor kFlavors[] = {
    Flavor::kGaussian,  Flavor::kOutliers, Flavor::kSpread, Flavor::kTies,
    Flavor::kTiny,      Flavor::kHuge,     Flavor::kLonely, Flavor::kNasty,
    Flavor::kNonFinite, Flavor::kRaw};
std::string_view Name(Flavor f);

// `count` elements of `e`. For kNonFinite, in every 64 elements: element 3 is
// NaN; 17 and 22 are +Inf and -Inf; 33 is Inf and 40 NaN; the last 16 are
// finite.
oracle::Bytes MakeTensor(oracle::Element e, int64_t count, Flavor flavor,
                         uint64_t seed);

// `count` random bytes.
oracle::Bytes RandomBytes(int64_t count, uint64_t seed);

// 64 random bits as a function of a position.
uint64_t Mix(uint64_t x);

}  // namespace quantd

#endif  // QUANTD_TESTS_TESTING_TENSORS_H_
