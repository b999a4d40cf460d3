#include "tests/testing/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd {
namespace {

using oracle::Element;

// The sum of four uniform numbers: bell-shaped, with standard deviation 1.
float Bell(uint64_t random) {
  int sum = 0;
  for (int i = 0; i < 4; ++i) sum += (random >> (16 * i)) & 0xFFFF;
  return static_cast<float>(sum - 131070) * 0x1.bb67aep-16f;
}

int SmallestExponent(Element e) { return e == Element::kF16 ? -24 : -149; }
int LargestExponent(Element e) { return e == Element::kF16 ? 15 : 127; }

float Largest(Element e) {
  switch (e) {
    case Element::kF16:
      return 65504.0f;
    case Element::kBF16:
      return 0x1.fep127f;
    case Element::kF32:
      break;
  }
  return std::numeric_limits<float>::max();
}

float Nasty(Element e, uint64_t random) {
  const float sign = random & 1 ? -1.0f : 1.0f;
  const float size = 1.0f + static_cast<float>(random >> 40 & 0xFF) / 256;
  const int smallest = SmallestExponent(e);
  switch (random >> 1 & 15) {
    case 0:
    case 1:
      return 0.0f * sign;
    case 2:  // subnormal
      return sign * std::ldexp(size, smallest + int(random >> 8 & 7));
    case 3:  // around the smallest normal number
      return sign * std::ldexp(size, (e == Element::kF16 ? -14 : -126) +
                                         int(random >> 8 & 3) - 2);
    case 4:
      return sign * Largest(e);
    case 5:  // where four summands overflow
      return sign * Largest(e) * (0.25f * (1 + (random >> 8 & 3)));
    case 6:  // around the smallest amax that has an exact scale
      return e == Element::kF16
                 ? sign * std::ldexp(size, -20)
                 : sign * std::ldexp(size, -117 + int(random >> 8 & 7));
    default:
      return sign * std::ldexp(size, int(random >> 8 & 15) - 8);
  }
}

// Values with whole blocks of zeros or of subnormals along rows and, because of
// long runs, along columns.
float NastyAt(Element e, int64_t i, uint64_t random) {
  const bool run = i / 4096 % 4 == 1;
  if (run || i / 16 % 8 == 5) {
    const bool all_negative = run ? i / 2048 % 2 == 0 : i / 16 % 16 == 13;
    return all_negative || random & 1 ? -0.0f : 0.0f;
  }
  if (i / 16 % 8 == 6) {
    return std::ldexp(random & 1 ? -1.0f : 1.0f,
                      SmallestExponent(e) + int(random >> 8 & 3));
  }
  return Nasty(e, random);
}

// Midpoints of E2M1 for a block with amax 6 * 2^k, and block maxima at
// midpoints of E4M3; all times 2^exponent.
float Tie(int64_t i, uint64_t random, int exponent) {
  constexpr float kMiddles[8] = {0.25f, 0.75f, 1.25f, 1.75f,
                                 2.5f,  3.5f,  5.0f,  6.0f};
  const int64_t block = i / 16;
  const int shift = exponent + static_cast<int>(Mix(block) % 12) - 11;
  if (i % 16 == 0 && block % 3 == 1) {
    return std::ldexp(6.0f * (1 + (2 * (random % 8) + 1) / 16.0f), shift - 1);
  }
  if (i % 16 == 0) return std::ldexp(6.0f, shift);
  const float sign = random & 1 ? -1.0f : 1.0f;
  const float v = std::ldexp(kMiddles[random >> 1 & 7], shift);
  switch (random >> 4 & 3) {
    case 0:
      return sign * v * (1 + 0x1p-7f);
    case 1:  // the next value, if the type has it
      return sign * std::nextafter(v, random >> 6 & 1 ? 0.0f : INFINITY);
  }
  return sign * v;
}

// An exponent for Tie, so that all values of a tensor are subnormal or slightly
// larger; for bf16 down to its smallest value.
int TinyExponent(Element e, uint64_t random) {
  const int smallest = e == Element::kF16 ? -24 : -133;
  return smallest + static_cast<int>(random % 16);
}

float Lonely(Element e, int64_t i, uint64_t seed, uint64_t random) {
  const int64_t block = i / 16;
  const uint64_t run = Mix(seed + block / 64);
  if (block % 64 == static_cast<int64_t>(run % 64)) {
    const int range = LargestExponent(e) - SmallestExponent(e) - 2;
    return Tie(i, random, SmallestExponent(e) + int(run / 64 % range));
  }
  if (run >> 40 & 1) return random & 1 ? -0.0f : 0.0f;
  return std::ldexp(random & 1 ? -1.0f : 1.0f,
                    SmallestExponent(e) + int(random >> 8 & 3));
}

float Element1(Element e, Flavor flavor, int64_t i, uint64_t seed) {
  const uint64_t random = Mix(seed * 0x9E3779B97F4A7C15u + i);
  switch (flavor) {
    case Flavor::kGaussian:
      return Bell(random);
    case Flavor::kOutliers:
      return Mix(random) % 64 ? Bell(random)
                              : std::ldexp(Bell(random), Mix(random + 1) % 13);
    case Flavor::kSpread: {
      const int range = (LargestExponent(e) - SmallestExponent(e)) * 7 / 8;
      const int base = static_cast<int>(Mix(seed + i / 16) % range);
      return std::ldexp(Bell(random),
                        SmallestExponent(e) + base + int(Mix(random) % 16));
    }
    case Flavor::kTies:
      return Tie(i, random, 0);
    case Flavor::kTiny:
      return Tie(i, random, TinyExponent(e, Mix(seed)));
    case Flavor::kHuge:
      return Tie(i, random,
                 LargestExponent(e) - 2 - int(Mix(seed + i / 1024) % 4));
    case Flavor::kLonely:
      return Lonely(e, i, seed, random);
    case Flavor::kNasty:
    case Flavor::kNonFinite:
    case Flavor::kRaw:
      break;
  }
  const float nasty = NastyAt(e, i, random);
  if (flavor != Flavor::kNonFinite) return nasty;
  switch (i % 64) {
    case 3:
    case 40:
      return std::numeric_limits<float>::quiet_NaN();
    case 17:
    case 33:
      return INFINITY;
    case 22:
      return -INFINITY;
  }
  return nasty;
}

}  // namespace

std::string_view Name(Flavor f) {
  switch (f) {
    case Flavor::kGaussian:
      return "gaussian";
    case Flavor::kOutliers:
      return "outliers";
    case Flavor::kSpread:
      return "spread";
    case Flavor::kTies:
      return "ties";
    case Flavor::kTiny:
      return "tiny";
    case Flavor::kHuge:
      return "huge";
    case Flavor::kLonely:
      return "lonely";
    case Flavor::kNasty:
      return "nasty";
    case Flavor::kNonFinite:
      return "non-finite";
    case Flavor::kRaw:
      return "raw";
  }
  return "?";
}

uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

oracle::Bytes RandomBytes(int64_t count, uint64_t seed) {
  oracle::Bytes bytes(count);
  for (int64_t i = 0; i < count; i += 8) {
    const uint64_t random = Mix(seed * 0xD1342543DE82EF95u + i);
    std::memcpy(&bytes[i], &random, std::min<int64_t>(8, count - i));
  }
  return bytes;
}

oracle::Bytes MakeTensor(Element e, int64_t count, Flavor flavor,
                         uint64_t seed) {
  if (flavor == Flavor::kRaw) {
    return RandomBytes(count * oracle::ElementSize(e), seed);
  }
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) {
    const float v = Element1(e, flavor, i, seed);
    // Rounding to the type must not create an unintended Inf.
    values[i] = std::isfinite(v) ? std::clamp(v, -Largest(e), Largest(e)) : v;
  }
  return oracle::FromValues(e, values);
}

}  // namespace quantd
