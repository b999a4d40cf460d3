// Cancels a call on the main thread when a signal arrives for which Python has
// a handler. Python runs handlers only on the main thread, between instructions
// of its interpreter. Without this, Ctrl-C would wait for the end of the call.
#ifndef QUANTD_CLIENT_PYTHON_NATIVE_INTERRUPT_H_
#define QUANTD_CLIENT_PYTHON_NATIVE_INTERRUPT_H_

#include "quantd/cancellation.h"

namespace quantd::python {

// During its lifetime, SIGINT and SIGTERM call the existing handler and then
// cancel the token. Signals that are ignored or end the process are not
// watched. Create and destroy it on the main thread. If several exist, because
// a handler makes a call, only the first cancels its token.
class InterruptWatch {
 public:
  explicit InterruptWatch(CancellationToken token);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;

  // Whether a watched signal has arrived.
  bool interrupted() const;

 private:
  const CancellationToken token_;
  bool first_ = false;
};

}  // namespace quantd::python

#endif  // QUANTD_CLIENT_PYTHON_NATIVE_INTERRUPT_H_
