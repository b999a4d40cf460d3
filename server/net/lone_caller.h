// Whether one caller at a time is all there is to serve.
//
// Of such a one a job is soonest done where its message came, on the network's
// thread. Of several it would keep the others' messages waiting; and as that
// thread sees nothing of them meanwhile, one call at a time is no proof that
// there are no others. But theirs are at hand when the job ends, and so soon
// comes no next call of a caller who got a reply: not again and again.
#ifndef QUANTD_SERVER_NET_LONE_CALLER_H_
#define QUANTD_SERVER_NET_LONE_CALLER_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace quantd {

// Thread-safe.
class LoneCaller {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // On a network thread, which then looks for what has come.
  void JobEnds() { unseen_ = true; }
  bool looks() const { return unseen_; }
  void NothingHasCome() { unseen_ = false; }
  void CallArrives(Time now) {
    if (!unseen_) {
      at_hand_ = 0;
    } else if (++at_hand_ >= kNoAccident) {
      crowded_ = now.time_since_epoch().count();
    }
  }

  bool IsLikely(Time now) const {
    return now - Time(Time::duration(crowded_)) > kMemory;
  }

 private:
  static constexpr int kNoAccident = 3;
  static constexpr std::chrono::milliseconds kMemory{100};

  std::atomic<bool> unseen_{false};  // what came during the last job
  std::atomic<int> at_hand_{0};      // calls in a row that were
  std::atomic<int64_t> crowded_{INT64_MIN / 2};  // when it last was: long ago
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_LONE_CALLER_H_
