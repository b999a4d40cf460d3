// Stops a call, whatever it is waiting for.
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
  std::chrono::milliseconds length;  // as the caller gave it
  Time deadline;                     // the time at which it ends
  std::string traceparent = {};
  CallPriority priority = CallPriority::kNormal;
};

// Thread-safe.
class CallControl {
 public:
  void Cancel();
  bool cancelled() const;
  // Returns false if the call was cancelled before `until`.
  bool SleepUntil(Time until);

  // Returns when the call is woken or cancelled, at the latest at `until`. A
  // Wake since the last wait counts.
  void WaitForWake(Time until);
  void Wake();

  // While it lives, `stop` ends the current step of the call. It runs when the
  // call is cancelled, at once if it already is, and must not use the control.
  // Only one may exist at a time.
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
