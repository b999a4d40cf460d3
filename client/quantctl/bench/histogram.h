// Latencies in log-linear buckets, as HdrHistogram has them.
#ifndef QUANTD_CLIENT_QUANTCTL_BENCH_HISTOGRAM_H_
#define QUANTD_CLIENT_QUANTCTL_BENCH_HISTOGRAM_H_

#include <cstdint>
#include <vector>

namespace quantd::quantctl {

// 128 buckets for each power of two: a quantile is never below the true one,
// and above it by less than 1/128 of it. Exact below 256. Values from 2^40 on
// (18 minutes, in nanoseconds) share a bucket, whose quantile is the maximum.
class Histogram {
 public:
  Histogram();
  void Add(uint64_t value);
  void Merge(const Histogram& other);
  // The smallest bucket that holds at least q of all values, as its largest
  // value, or as the maximum if that is smaller. 0 where there are none.
  uint64_t Quantile(double q) const;
  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }

 private:
  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0;
  uint64_t max_ = 0;
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_BENCH_HISTOGRAM_H_
