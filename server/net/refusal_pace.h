// How fast a host is told that its calls are wrong.
//
// A call that is refused for what it asks costs its sender nothing and the
// server much of what a small call costs. So a host gets kAtOnce refusals at
// once, then kPerSecond; what is due later than that is told later, by kLongest
// at most, and until then takes one of the streams that its connection may
// have. Calls that are served wait for nobody.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_NET_REFUSAL_PACE_H_
#define QUANTD_SERVER_NET_REFUSAL_PACE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace quantd {

class RefusalPace {
 public:
  static constexpr int kAtOnce = 500;
  static constexpr int kPerSecond = 500;
  static constexpr absl::Duration kLongest = absl::Seconds(1);

  // `exempt`: hosts that speak for many. Empty: none.
  explicit RefusalPace(std::function<bool(std::string_view host)> exempt = {})
      : exempt_(std::move(exempt)) {}

  // When `host` may be told of one more refusal: not before `now`.
  absl::Time Next(const std::string& host, absl::Time now);
  // Hosts that a state is kept of.
  size_t remembered() const;

 private:
  const std::function<bool(std::string_view host)> exempt_;
  mutable absl::Mutex mutex_;
  // When all that it was told would have been told at the steady rate.
  absl::flat_hash_map<std::string, absl::Time> paid_until_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_REFUSAL_PACE_H_
