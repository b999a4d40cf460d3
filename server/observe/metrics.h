// Counters of what calls did. Recording is a few relaxed atomic additions to
// preallocated memory: no lock, no allocation.
//
// Threads: everything here may be used from any thread. A snapshot taken while
// calls end may count some of them in part.
#ifndef QUANTD_SERVER_OBSERVE_METRICS_H_
#define QUANTD_SERVER_OBSERVE_METRICS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "server/calls/call_record.h"

namespace quantd {

class Count {
 public:
  void Add(uint64_t n) { n_.fetch_add(n, std::memory_order_release); }
  uint64_t Read() const { return n_.load(std::memory_order_acquire); }

 private:
  std::atomic<uint64_t> n_ = 0;
};

// Durations in buckets with fixed bounds.
class Histogram {
 public:
  // Inclusive upper bounds in nanoseconds, from 10 us to a minute; one more
  // bucket has no upper bound. The shortest call takes about 100 us, and limits
  // end the longest waits.
  static constexpr int64_t kBounds[] = {
      10'000,        25'000,        50'000,         100'000,
      250'000,       500'000,       1'000'000,      2'500'000,
      5'000'000,     10'000'000,    25'000'000,     50'000'000,
      100'000'000,   250'000'000,   500'000'000,    1'000'000'000,
      2'500'000'000, 5'000'000'000, 10'000'000'000, 30'000'000'000,
      60'000'000'000};
  static constexpr size_t kBuckets = std::size(kBounds) + 1;

  // The first bucket whose bound is not below `nanoseconds`.
  static size_t BucketOf(int64_t nanoseconds) {
    return std::lower_bound(std::begin(kBounds), std::end(kBounds),
                            nanoseconds) -
           kBounds;
  }

  void Observe(int64_t nanoseconds) {
    sum_ns_.Add(nanoseconds);
    buckets_[BucketOf(nanoseconds)].Add(1);
  }

  struct Snapshot {
    std::array<uint64_t, kBuckets> buckets = {};  // each alone, not cumulative
    uint64_t count = 0;
    uint64_t sum_ns = 0;
  };
  Snapshot Read() const {
    Snapshot snapshot;
    for (size_t i = 0; i < kBuckets; ++i) {
      snapshot.buckets[i] = buckets_[i].Read();
      snapshot.count += snapshot.buckets[i];
    }
    snapshot.sum_ns = sum_ns_.Read();
    return snapshot;
  }

 private:
  std::array<Count, kBuckets> buckets_ = {};
  Count sum_ns_;
};

// Once a call is counted in Snapshot::total, all its other counts are readable
// too.
class Metrics {
 public:
  // Counts of one method, or their values.
  template <typename Number, typename Durations>
  struct Counts {
    Number request_bytes{};
    Number reply_bytes{};  // OK replies only
    Number shared_input_bytes{};
    Number shared_output_bytes{};
    Durations total;
  };
  using Snapshot = Counts<uint64_t, Histogram::Snapshot>;

  // Must be called once for each call, when it is over.
  void Record(const CallRecord& record) {
    PerMethod& method = methods_[wire::Index(record.method)];
    method.request_bytes.Add(record.request_bytes);
    if (record.code == grpc::StatusCode::OK) {
      method.reply_bytes.Add(record.reply_bytes);
      method.shared_input_bytes.Add(record.shared_input_bytes);
      method.shared_output_bytes.Add(record.shared_output_bytes);
    } else {
      method.errors[record.code][record.reason].Add(1);
    }
    if (wire::SpecOf(record.method).tensor) {
      auto& stages = stages_[wire::Index(record.method)];
      for (size_t i = 0; i < stages.size(); ++i) {
        const auto duration = record.Duration(static_cast<CallStage>(i));
        if (duration) stages[i].Observe(*duration);
      }
    }
    // Last, so that a counted call is complete.
    method.total.Observe(record.Total());
  }

  Snapshot Read(wire::Method method) const {
    const PerMethod& from = methods_[wire::Index(method)];
    return {from.request_bytes.Read(), from.reply_bytes.Read(),
            from.shared_input_bytes.Read(), from.shared_output_bytes.Read(),
            from.total.Read()};
  }
  // Time of a stage, by CallStage; only tensor methods have stages.
  Histogram::Snapshot Read(wire::Method method, size_t stage) const {
    return stages_[wire::Index(method)][stage].Read();
  }
  uint64_t Errors(wire::Method method, grpc::StatusCode code,
                  v1::ErrorDetail::Reason reason) const {
    return methods_[wire::Index(method)].errors[code][reason].Read();
  }

 private:
  static constexpr size_t kCodes = grpc::StatusCode::UNAUTHENTICATED + 1;
  static constexpr size_t kReasons = v1::ErrorDetail::Reason_ARRAYSIZE;

  struct alignas(64) PerMethod : Counts<Count, Histogram> {
    std::array<std::array<Count, kReasons>, kCodes> errors = {};
  };

  std::array<PerMethod, std::size(wire::kMethods)> methods_;
  std::array<std::array<Histogram, std::size(kCallStages)>,
             wire::kTensorMethods.size()>
      stages_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_METRICS_H_
