// How much work the server has, and how fast it is done.
//
// Work is bytes of requests. The rate is what was served in each second in
// which there was work, over a short window.
//
// Not thread-safe: the gate's lock guards it.
#ifndef QUANTD_SERVER_GATE_WORKLOAD_H_
#define QUANTD_SERVER_GATE_WORKLOAD_H_

#include <cstddef>
#include <map>

#include "absl/time/time.h"

namespace quantd {

class Workload {
 public:
  // Messages on their way, by the time until which they are believed in.
  using Coming = std::multimap<absl::Time, double>;

  // A message is on its way. It counts for twice the time in which everything
  // before it and it should have been served: one that comes much more slowly
  // than the server works delays nobody.
  Coming::iterator Comes(size_t bytes, absl::Time now);
  void ComesNoMore(Coming::iterator message) { coming_.erase(message); }

  // A message of so many bytes is here; its work ends, well or not.
  void Begins(size_t bytes, absl::Time now);
  void Ends(size_t bytes, bool served, absl::Time now);

  // The time until what is here, what comes, `waiting` and `own` bytes are
  // served; no time while no rate is known.
  absl::Duration TimeFor(size_t waiting, size_t own, absl::Time now) const;
  // The time that `own` bytes take by themselves.
  absl::Duration TimeForAlone(size_t own) const;
  // Messages that are here.
  int count() const { return begun_; }
  bool IsIdle(absl::Time now) const;
  double rate() const { return rate_; }  // bytes a second; 0: unknown

 private:
  double rate_ = 0;
  Coming coming_;
  double here_ = 0;  // of what has begun
  int begun_ = 0;
  absl::Time busy_since_ = absl::InfinitePast();
  // Since the last sample.
  absl::Duration busy_ = absl::ZeroDuration();
  double served_ = 0;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_WORKLOAD_H_
