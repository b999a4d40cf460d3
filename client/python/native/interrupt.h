// Ends a call that the main thread waits for when a signal arrives for which
// Python has a handler: handlers of Python run on the main thread alone,
// between its own instructions, so that Ctrl-C would else wait for the call.
#ifndef QUANTD_CLIENT_PYTHON_NATIVE_INTERRUPT_H_
#define QUANTD_CLIENT_PYTHON_NATIVE_INTERRUPT_H_

#include "quantd/cancellation.h"

namespace quantd::python {

// While it lives, SIGINT and SIGTERM cancel the token, after what handles
// them has been told. A signal that is ignored, or that ends the process, does
// what it did before. Made and destroyed by the main thread; of several at a
// time, as a handler may make a call, the first one is told.
class InterruptWatch {
 public:
  explicit InterruptWatch(CancellationToken token);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;

  // Whether a signal came.
  bool interrupted() const;

 private:
  const CancellationToken token_;
  bool first_ = false;
};

}  // namespace quantd::python

#endif  // QUANTD_CLIENT_PYTHON_NATIVE_INTERRUPT_H_
