// Cancels a call in any of its steps.
#ifndef QUANTD_CLIENT_CALL_CALL_CONTROL_H_
#define QUANTD_CLIENT_CALL_CALL_CONTROL_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "quantd/call_options.h"

namespace quantd::client {

using Time = std::chrono::system_clock::time_point;

// A call's time limit and other metadata for servers.
struct CallLimit {
  std::chrono::milliseconds length;  // the limit as the caller gave it
  Time deadline;                     // when the call must have ended
  std::string traceparent = {};
  CallPriority priority = CallPriority::kNormal;
};

// Cancels and wakes the thread that makes a call. Thread-safe.
class CallControl {
 public:
  void Cancel();
  bool cancelled() const;
  // Sleeps. Returns false if the call was cancelled before `until`.
  bool SleepUntil(Time until);

  // Waits for Wake or Cancel, but no longer than `until`. Returns at once if
  // Wake was called since the last wait.
  void WaitForWake(Time until);
  void Wake();

  // While a Stage lives, Cancel calls `stop`, which must end the current step
  // of the call. If the call is already cancelled, the constructor calls it.
  // `stop` must not use the control. Only one Stage may exist at a time.
  class Stage {
   public:
    Stage(CallControl* control, std::function<void()> stop);
    ~Stage();
    Stage(const Stage&) = delete;

   private:
    CallControl* const control_;
  };

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false;
  bool woken_ = false;
  std::function<void()> stop_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_CALL_CALL_CONTROL_H_
