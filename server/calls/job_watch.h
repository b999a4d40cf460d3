// How long a job has not got on: what tells a slow one from one that hangs.
#ifndef QUANTD_SERVER_CALLS_JOB_WATCH_H_
#define QUANTD_SERVER_CALLS_JOB_WATCH_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "kernels/plan/plan.h"

namespace quantd {

class JobWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // A job of `plan` begins, which may stand still for `most` and for what its
  // bytes take at the least speed.
  void Begin(const Plan& plan, absl::Duration most) {
    const size_t bytes = plan.input_bytes() + plan.output_bytes();
    limit_ = absl::ToChronoNanoseconds(
        most + absl::Seconds(static_cast<double>(bytes) / kBytesPerSecond));
    began_ = Clock::now();
  }
  // For Job::CountPieces; never starts anew.
  std::atomic<uint64_t>* pieces() { return &pieces_; }

  Clock::time_point began() const { return began_; }
  // Whether no piece was done within the limit; for the watch alone. A device
  // that counts none has the limit for the whole job.
  bool Hangs() {
    const Clock::time_point now = Clock::now();
    const uint64_t pieces = pieces_;
    if (pieces != seen_) moved_ = now;
    seen_ = pieces;
    return now - std::max(began_, moved_) > limit_;
  }

 private:
  static constexpr size_t kBytesPerSecond = size_t{16} << 20;

  Clock::time_point began_;
  Clock::duration limit_{};
  std::atomic<uint64_t> pieces_{0};
  uint64_t seen_ = 0;
  Clock::time_point moved_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_JOB_WATCH_H_
