// Counts what calls did. Recording is a few relaxed atomic additions to memory
// that is there from the start: no lock, no allocation, no effect on a call.
//
// Threads: everything here may be used from any thread. A snapshot that is
// taken while calls end holds each of them in part or whole.
#ifndef QUANTD_SERVER_OBSERVE_METRICS_H_
#define QUANTD_SERVER_OBSERVE_METRICS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "server/calls/call_record.h"

namespace quantd {

// Durations in buckets of fixed bounds.
class Histogram {
 public:
  // Upper ends, inclusive, in nanoseconds; one bucket more has no upper end.
  // 10 us to a minute: the least call takes about 100 us, and nobody waits for
  // memory or a device longer than the server's limits allow.
  static constexpr int64_t kBounds[] = {
      10'000,        25'000,        50'000,         100'000,
      250'000,       500'000,       1'000'000,      2'500'000,
      5'000'000,     10'000'000,    25'000'000,     50'000'000,
      100'000'000,   250'000'000,   500'000'000,    1'000'000'000,
      2'500'000'000, 5'000'000'000, 10'000'000'000, 30'000'000'000,
      60'000'000'000};
  static constexpr size_t kBuckets = std::size(kBounds) + 1;

  // The first whose upper end is not below.
  static size_t BucketOf(int64_t nanoseconds);

  void Observe(int64_t nanoseconds);

  struct Snapshot {
    std::array<uint64_t, kBuckets> buckets = {};  // each alone, not cumulative
    uint64_t count = 0;
    uint64_t sum_ns = 0;
  };
  Snapshot Read() const;

 private:
  std::array<std::atomic<uint64_t>, kBuckets> buckets_ = {};
  std::atomic<uint64_t> sum_ns_ = 0;
};

// Once a call is counted in Snapshot::total, everything else about it can be
// read too.
class Metrics {
 public:
  // What has been counted for one method.
  struct Snapshot {
    uint64_t request_bytes = 0;
    uint64_t reply_bytes = 0;  // of replies that were OK
    uint64_t shared_input_bytes = 0;
    uint64_t shared_output_bytes = 0;
    Histogram::Snapshot total;
  };

  // Once for each call, when it is over.
  void Record(const CallRecord& record);

  Snapshot Read(wire::Method method) const;
  // Of tensor methods, by CallStage.
  Histogram::Snapshot Read(wire::Method method, size_t stage) const;
  uint64_t Errors(wire::Method method, grpc::StatusCode code,
                  v1::ErrorDetail::Reason reason) const;

 private:
  static constexpr size_t kCodes = grpc::StatusCode::UNAUTHENTICATED + 1;
  static constexpr size_t kReasons = v1::ErrorDetail::Reason_ARRAYSIZE;

  struct alignas(64) PerMethod {
    std::atomic<uint64_t> request_bytes = 0;
    std::atomic<uint64_t> reply_bytes = 0;
    std::atomic<uint64_t> shared_input_bytes = 0;
    std::atomic<uint64_t> shared_output_bytes = 0;
    Histogram total;
    std::array<std::array<std::atomic<uint64_t>, kReasons>, kCodes> errors = {};
  };

  std::array<PerMethod, std::size(wire::kMethods)> methods_;
  std::array<std::array<Histogram, std::size(kCallStages)>,
             wire::kTensorMethods.size()>
      stages_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_METRICS_H_
