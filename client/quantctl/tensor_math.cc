#include "client/quantctl/tensor_math.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

namespace quantd::client {
namespace {

template <typename T>
T Load(absl::Span<const std::byte> bytes, size_t i) {
  // Copies the element, because elements of a file may be unaligned.
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

double FromF16(uint16_t code) {
  const int exponent = code >> 10 & 31;
  const int fraction = code & 1023;
  double value = 0;
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 1024, exponent - 25);
  }
  return code >> 15 ? -value : value;
}

// Rounds to the nearest bf16. `x` must not be NaN.
uint16_t ToBf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Normally distributed numbers. Used instead of the standard library's
// distribution, which differs between implementations.
class Gaussian {
 public:
  explicit Gaussian(uint64_t seed) : state_(seed) {}

  double Next() {
    // The Box-Muller transform; u is in (0, 1].
    const double u = 1.0 - Uniform();
    const double v = Uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
  }

 private:
  // A number in [0, 1) from the upper 53 bits of splitmix64.
  double Uniform() {
    state_ += 0x9E3779B97F4A7C15;
    uint64_t z = state_;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) * 0x1p-53;
  }

  uint64_t state_;
};

}  // namespace

double Element(DType dtype, absl::Span<const std::byte> bytes, size_t i) {
  switch (dtype) {
    case DType::kF32:
      return Load<float>(bytes, i);
    case DType::kF16:
      return FromF16(Load<uint16_t>(bytes, i));
    case DType::kBF16:
      return std::bit_cast<float>(uint32_t{Load<uint16_t>(bytes, i)} << 16);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

void SquareSums::Add(DType x_dtype, absl::Span<const std::byte> x,
                     DType y_dtype, absl::Span<const std::byte> y) {
  const size_t count = x.size() / SizeOf(x_dtype);
  for (size_t i = 0; i < count; ++i) {
    const double a = Element(x_dtype, x, i);
    const double b = Element(y_dtype, y, i);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    signal_ += a * a;
    noise_ += (a - b) * (a - b);
  }
}

double SquareSums::sqnr_db() const {
  if (signal_ == 0 && noise_ == 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return 10.0 * std::log10(signal_ / noise_);
}

std::vector<uint16_t> GaussianSample(size_t count, uint64_t seed) {
  Gaussian gaussian(seed);
  std::vector<uint16_t> sample(count);
  for (uint16_t& x : sample) x = ToBf16(static_cast<float>(gaussian.Next()));
  return sample;
}

std::vector<uint16_t> OutlierSample(size_t count, uint64_t seed) {
  constexpr int kFreedom = 3;
  Gaussian gaussian(seed);
  std::vector<uint16_t> sample(count);
  for (uint16_t& x : sample) {
    const double z = gaussian.Next();
    double squares = 0;
    for (int i = 0; i < kFreedom; ++i) {
      const double g = gaussian.Next();
      squares += g * g;
    }
    // The lower bound prevents values that are infinite or implausibly large.
    squares = std::fmax(squares, 1e-4);
    x = ToBf16(static_cast<float>(z / std::sqrt(squares / kFreedom)));
  }
  return sample;
}

}  // namespace quantd::client
