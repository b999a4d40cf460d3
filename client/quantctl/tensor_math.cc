#include "client/quantctl/tensor_math.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "client/checkpoint/weight_values.h"
#include "client/files/quantized_file.h"

namespace quantd::client {
namespace {

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

void SquareSums::Add(DType x_dtype, absl::Span<const std::byte> x,
                     DType y_dtype, absl::Span<const std::byte> y) {
  constexpr size_t kSome = size_t{1} << 16;
  std::vector<float> a;
  std::vector<float> b;
  const auto decode = [&](DType dtype, absl::Span<const std::byte> bytes,
                          size_t begin, std::vector<float>* out) {
    const size_t size = SizeOf(dtype);
    out->resize(std::min(kSome, bytes.size() / size - begin));
    checkpoint::Decode(SafetensorsName(dtype),
                       bytes.subspan(begin * size, out->size() * size),
                       absl::MakeSpan(*out));
  };
  for (size_t begin = 0; begin < x.size() / SizeOf(x_dtype); begin += kSome) {
    decode(x_dtype, x, begin, &a);
    decode(y_dtype, y, begin, &b);
    for (size_t i = 0; i < a.size(); ++i) {
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) continue;
      const double difference = static_cast<double>(a[i]) - b[i];
      signal_ += static_cast<double>(a[i]) * a[i];
      noise_ += difference * difference;
    }
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
  for (uint16_t& x : sample)
    x = checkpoint::ToBf16(static_cast<float>(gaussian.Next()));
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
    x = checkpoint::ToBf16(
        static_cast<float>(z / std::sqrt(squares / kFreedom)));
  }
  return sample;
}

}  // namespace quantd::client
