// Limits how many bands of a call are sent at a time.
#ifndef QUANTD_CLIENT_BANDS_TURNS_H_
#define QUANTD_CLIENT_BANDS_TURNS_H_

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace quantd::client {

// A counting semaphore. A band holds one turn until it is sent completely or
// its call ends. Then the next waiting band gets the turn.
class Turns {
 public:
  explicit Turns(int at_once) : free_(std::max(at_once, 1)) {}

  // Waits for a turn. Returns false if another band has failed.
  bool Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return free_ > 0 || failed_; });
    --free_;
    return !failed_;
  }
  void Give() {
    const std::lock_guard lock(mutex_);
    ++free_;
    changed_.notify_one();
  }
  void Fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int free_;
  bool failed_ = false;
};

// Owns a turn that was taken, and gives it back exactly once.
class Turn {
 public:
  explicit Turn(Turns* turns) : turns_(turns) {}
  ~Turn() { Give(); }
  Turn(const Turn&) = delete;
  void Give() {
    if (turns_ != nullptr) std::exchange(turns_, nullptr)->Give();
  }

 private:
  Turns* turns_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_TURNS_H_
