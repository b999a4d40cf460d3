// Cancellation of calls from another thread.
//
//   quantd::CancellationToken stop;
//   auto future = client->QuantizeAsync(..., {.cancel = stop});
//   stop.Cancel();  // the future becomes CANCELLED
//
// A token is a handle: copies share one state. A cancelled token stays
// cancelled, and every later call that carries it fails at once. Threads: any
// number may use a token at once.
#ifndef QUANTD_CANCELLATION_H_
#define QUANTD_CANCELLATION_H_

#include <functional>
#include <memory>

namespace quantd {

class CancellationToken {
 public:
  CancellationToken();

  // Cancels every call that carries a copy of this token. Does not wait for
  // them to return.
  void Cancel() const;
  bool cancelled() const;

  // Runs `action` once, when the token is cancelled (at once if it already is),
  // on the thread that cancels. The destructor withdraws the action: once it
  // has returned, the action is not running and will not run. `action` must not
  // touch the token.
  class Registration {
   public:
    Registration(const CancellationToken& token, std::function<void()> action);
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace quantd

#endif  // QUANTD_CANCELLATION_H_
