// Limits how many bands of a call are being sent.
#ifndef QUANTD_CLIENT_BANDS_TURNS_H_
#define QUANTD_CLIENT_BANDS_TURNS_H_

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace quantd::client {

// A fixed number of turns. A band holds one until it has been sent completely,
// or until its call ends; then the next waiting band gets it.
class Turns {
 public:
  explicit Turns(int at_once) : free_(std::max(at_once, 1)) {}

  // Returns false if another band has failed.
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

// A turn that was taken. Gives it back once.
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
