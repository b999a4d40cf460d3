// Stops one call, whatever it waits for.
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

// How long a call may take, and what else servers are told of it.
struct CallLimit {
  std::chrono::milliseconds length;  // as the caller said it
  Time deadline;                     // when that is over
  std::string traceparent = {};
  CallPriority priority = CallPriority::kNormal;
};

// Thread-safe.
class CallControl {
 public:
  void Cancel();
  bool cancelled() const;
  // False when the call was cancelled before `until`.
  bool SleepUntil(Time until);

  // Returns when the call is woken or cancelled, `until` at the latest. A
  // Wake since the last wait counts.
  void WaitForWake(Time until);
  void Wake();

  // While it lives, `stop` is what ends whatever the call is in the middle of.
  // It runs when the call is cancelled, at once if it already is, and must not
  // touch the control. One at a time.
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
