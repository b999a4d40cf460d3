#include "tests/oracle/rht.h"

#include <cmath>

#include "tests/oracle/fp32.h"

namespace quantd::oracle {
namespace {

double Sign(const Mask& mask, int i) {
  return mask.words[i / 64] >> (i % 64) & 1 ? -1.0 : 1.0;
}

// fl32(n^-1/2)
double Factor(int n) { return Narrow(std::sqrt(1.0 / n)); }

void Butterfly(float* t, int n) {
  for (int stride = 1; stride < n; stride *= 2) {
    for (int i = 0; i < n; ++i) {
      if (i & stride) continue;
      const float a = t[i];
      const float b = t[i + stride];
      t[i] = Add(a, b);
      t[i + stride] = Sub(a, b);
    }
  }
}

}  // namespace

Mask Repeat(uint16_t bits) {
  const uint64_t word = bits * 0x0001000100010001u;
  return Mask(word, word);
}

// Adding +0 turns a zero product into +0, as the fused operation does. The
// product of two floats is exact in double.
void Rotate(float* x, const Mask& mask, int n) {
  for (int i = 0; i < n; ++i) {
    x[i] = Narrow(double{x[i]} * (Factor(n) * Sign(mask, i)) + 0.0);
  }
  Butterfly(x, n);
}

void RotateBack(float* y, const Mask& mask, int n) {
  for (int i = 0; i < n; ++i) y[i] = Narrow(double{y[i]} * Factor(n) + 0.0);
  Butterfly(y, n);
  for (int i = 0; i < n; ++i) {
    y[i] = Narrow(double{y[i]} * Sign(mask, i) + 0.0);
  }
}

}  // namespace quantd::oracle
