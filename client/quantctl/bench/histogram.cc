#include "client/quantctl/bench/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quantd::quantctl {
namespace {

constexpr int kBits = 7;      // of a value that a bucket tells apart
constexpr int kLargest = 40;  // powers of two from here on are one bucket
constexpr size_t kOverflow = size_t{kLargest - kBits + 1} << kBits;

// The first octave of buckets stands for 0 to 127, the next for 128 to 255,
// each of width 1; from there on widths double.
size_t BucketOf(uint64_t value) {
  const int width = std::bit_width(value);
  if (width > kLargest) return kOverflow;
  if (width <= kBits + 1) return value;
  const int shift = width - kBits - 1;
  return (static_cast<size_t>(shift) << kBits) + (value >> shift);
}

uint64_t LargestOf(size_t bucket) {
  if (bucket < size_t{2} << kBits) return bucket;
  const size_t shift = (bucket >> kBits) - 1;
  const uint64_t leading = bucket - (shift << kBits);
  return ((leading + 1) << shift) - 1;
}

}  // namespace

Histogram::Histogram() : buckets_(kOverflow + 1) {}

void Histogram::Add(uint64_t value) {
  ++buckets_[BucketOf(value)];
  ++count_;
  max_ = std::max(max_, value);
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

uint64_t Histogram::Quantile(double q) const {
  const auto wanted = std::max<uint64_t>(
      1, static_cast<uint64_t>(std::ceil(q * static_cast<double>(count_))));
  uint64_t seen = 0;
  for (size_t i = 0; i < kOverflow; ++i) {
    seen += buckets_[i];
    if (seen >= wanted) return std::min(LargestOf(i), max_);
  }
  return max_;
}

}  // namespace quantd::quantctl
