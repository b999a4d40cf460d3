// How many threads read sockets beside those that deliver.
//
// gRPC reads a socket on whichever thread asks any completion queue, and wakes
// the thread of the queue that what came is for. One thread that reads and
// delivers wakes nobody, which is what a caller who waits wants; of many large
// messages it is not enough. So there are readers, as many as the other threads
// are busy.
//
// Threads: of one at a time.
#ifndef QUANTD_SERVER_NET_READER_COUNT_H_
#define QUANTD_SERVER_NET_READER_COUNT_H_

#include <algorithm>

#include "absl/time/time.h"

namespace quantd {

class ReaderCount {
 public:
  explicit ReaderCount(int most) : most_(most) {}

  // `threads` deliver or read, and have used so much processor time in the time
  // that has passed. One more reads if all are busy, one less if they have not
  // been for a while. Returns how many read from now on.
  int Adjust(int threads, absl::Duration used, absl::Duration passed) {
    const double busy = absl::FDivDuration(used, passed);
    calm_ = count_ > 0 && busy < kIdle * (threads - 1) ? calm_ + 1 : 0;
    if (busy > kBusy * threads) {
      count_ = std::min(count_ + 1, most_);
    } else if (calm_ >= kCalm) {
      --count_;
      calm_ = 0;
    }
    return count_;
  }
  int count() const { return count_; }

 private:
  // The part of the time of all threads above which they are busy, and the one
  // below which one less would do. Nearer to each other, a reader comes and
  // goes all the time, and each small call pays for its waking.
  static constexpr double kBusy = 0.9;
  static constexpr double kIdle = 0.75;
  static constexpr int kCalm = 10;  // looks after which one less reads

  const int most_;
  int count_ = 0;
  int calm_ = 0;  // looks in a row at which one less would have done
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_READER_COUNT_H_
