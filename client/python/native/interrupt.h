// Ends a call on the main thread when a signal arrives for which Python has a
// handler. Python runs handlers only on the main thread and between its own
// instructions, so Ctrl-C would otherwise have to wait for the call.
#ifndef QUANTD_CLIENT_PYTHON_NATIVE_INTERRUPT_H_
#define QUANTD_CLIENT_PYTHON_NATIVE_INTERRUPT_H_

#include "quantd/cancellation.h"

namespace quantd::python {

// While it lives, SIGINT and SIGTERM cancel the token, after the existing
// handler has been called. Signals that are ignored or end the process still do
// so. Must be created and destroyed on the main thread. If several exist,
// because a handler makes a call, the first one is notified.
class InterruptWatch {
 public:
  explicit InterruptWatch(CancellationToken token);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;

  // Whether a signal arrived.
  bool interrupted() const;

 private:
  const CancellationToken token_;
  bool first_ = false;
};

}  // namespace quantd::python

#endif  // QUANTD_CLIENT_PYTHON_NATIVE_INTERRUPT_H_
