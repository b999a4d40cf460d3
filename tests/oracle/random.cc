#include "tests/oracle/random.h"

#include <algorithm>
#include <cmath>

#include "tests/oracle/codec.h"
#include "tests/oracle/fp32.h"

namespace quantd::oracle {
namespace {

float Step(float z) { return z >= 4 ? 2.0f : z >= 2 ? 1.0f : 0.5f; }

}  // namespace

std::array<uint32_t, 4> Philox(uint64_t seed, uint64_t subsequence,
                               uint64_t offset, int rounds) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  std::array<uint32_t, 4> c = {low(offset), high(offset), low(subsequence),
                               high(subsequence)};
  uint32_t k0 = low(seed);
  uint32_t k1 = high(seed);
  for (int i = 0; i < rounds; ++i) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {high(p1) ^ c[1] ^ k0, low(p1), high(p0) ^ c[3] ^ k1, low(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

uint8_t RandomByte(const Randomness& r, int64_t m, int64_t k) {
  const auto row = static_cast<uint64_t>(m);
  const auto column = static_cast<uint64_t>(k);
  const auto columns = static_cast<uint64_t>(r.columns);
  const uint64_t offset = r.columnwise
                              ? row / 16 * columns + column
                              : row * ((columns + 15) / 16) + column / 16;
  const uint64_t index = (r.columnwise ? row : column) % 16;
  const auto words = Philox(r.seed, 2 * r.seed_offset + r.columnwise, offset);
  return static_cast<uint8_t>(words[index / 4] >> (index % 4 * 8));
}

uint8_t StochasticE2m1Code(float v, uint8_t byte) {
  if (std::isnan(v)) return 7;
  const float z = std::fabs(v);
  const float t = Add(z, Mul(Div(byte, 256), Step(z)));
  const float q = Mul(std::floor(Div(t, Step(t))), Step(t));
  return E2m1Code(std::copysign(std::min(q, 6.0f), v));
}

}  // namespace quantd::oracle
