#include "server/observe/metrics.h"

#include <algorithm>

namespace quantd {
namespace {

void Add(std::atomic<uint64_t>& to, uint64_t n) {
  to.fetch_add(n, std::memory_order_release);
}

uint64_t Load(const std::atomic<uint64_t>& from) {
  return from.load(std::memory_order_acquire);
}

}  // namespace

size_t Histogram::BucketOf(int64_t nanoseconds) {
  return std::lower_bound(std::begin(kBounds), std::end(kBounds), nanoseconds) -
         kBounds;
}

void Histogram::Observe(int64_t nanoseconds) {
  Add(sum_ns_, nanoseconds);
  Add(buckets_[BucketOf(nanoseconds)], 1);
}

Histogram::Snapshot Histogram::Read() const {
  Snapshot snapshot;
  for (size_t i = 0; i < kBuckets; ++i) {
    snapshot.buckets[i] = Load(buckets_[i]);
    snapshot.count += snapshot.buckets[i];
  }
  snapshot.sum_ns = Load(sum_ns_);
  return snapshot;
}

void Metrics::Record(const CallRecord& record) {
  PerMethod& method = methods_[wire::Index(record.method)];
  Add(method.request_bytes, record.request_bytes);
  if (record.code == grpc::StatusCode::OK) {
    Add(method.reply_bytes, record.reply_bytes);
    Add(method.shared_input_bytes, record.shared_input_bytes);
    Add(method.shared_output_bytes, record.shared_output_bytes);
  } else {
    Add(method.errors[record.code][record.reason], 1);
  }
  if (wire::SpecOf(record.method).tensor) {
    auto& stages = stages_[wire::Index(record.method)];
    for (size_t i = 0; i < stages.size(); ++i) {
      const auto duration = record.Duration(static_cast<CallStage>(i));
      if (duration) stages[i].Observe(*duration);
    }
  }
  // Last: of a call that is counted, all the rest has been.
  method.total.Observe(record.Total());
}

Metrics::Snapshot Metrics::Read(wire::Method method) const {
  const PerMethod& from = methods_[wire::Index(method)];
  return {Load(from.request_bytes), Load(from.reply_bytes),
          Load(from.shared_input_bytes), Load(from.shared_output_bytes),
          from.total.Read()};
}

Histogram::Snapshot Metrics::Read(wire::Method method, size_t stage) const {
  return stages_[wire::Index(method)][stage].Read();
}

uint64_t Metrics::Errors(wire::Method method, grpc::StatusCode code,
                         v1::ErrorDetail::Reason reason) const {
  return Load(methods_[wire::Index(method)].errors[code][reason]);
}

}  // namespace quantd
